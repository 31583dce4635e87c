//! A plain TCP stream between two processes that copies as often as Weft: the sender from its
//! memory into the socket, the receiver from the socket into a buffer and from there into the
//! caller's memory.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::time::Instant;

use anyhow::{Context, Result};

const FRAME: usize = 256 << 10;
const REQUEST: usize = 1 << 20;

/// Receives `mib` MiB from a second process; MiB per second.
pub(crate) fn receive(mib: u64) -> Result<f64> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?.to_string();
    let mut sender = Command::new(std::env::current_exe()?)
        .args(["sender", &mib.to_string()])
        .env("WEFT_BENCH_ADDRESS", address)
        .stdin(Stdio::null())
        .spawn()?;
    let (mut stream, _) = listener.accept()?;
    let mut frame = vec![1; FRAME];
    let mut memory = vec![1; REQUEST];
    // The sender has touched its memory before it connects; this byte says go.
    stream.write_all(&[1])?;
    let started = Instant::now();
    for _ in 0..mib {
        for part in memory.chunks_mut(FRAME) {
            stream.read_exact(&mut frame)?;
            part.copy_from_slice(&frame);
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    sender.wait()?;
    Ok(mib as f64 / seconds)
}

/// The second process.
pub(crate) fn send(mib: u64) -> Result<()> {
    let memory = vec![7; (mib as usize) << 20];
    let address = std::env::var("WEFT_BENCH_ADDRESS").context("this is started by `read`")?;
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.read_exact(&mut [0])?;
    for frame in memory.chunks(FRAME) {
        stream.write_all(frame)?;
    }
    Ok(())
}
