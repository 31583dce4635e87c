//! A meeting of a group's members on one machine: member 0 waits for the others, then sends a
//! message to each of them.
//!
//! Servers gather members that read or write together. Before that, members must share one
//! attachment among themselves. Parallel programs have their own means for that; processes of a
//! shell loop have none, so they meet at a Unix socket in Linux's abstract namespace, which leaves
//! nothing behind if a process dies. Its name is derived from the volume's key, the user, the group
//! and the number of the collective; each end asks the kernel whether the other belongs to the same
//! user.
//!
//! Deliberately absent: members on several machines. Each of those sends its own attach request.

use std::io::{self, ErrorKind};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{self, SocketAddr};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::{Instant, sleep, timeout_at};
use weft_client::{ConnectOptions, Missing};

use crate::args::group::{Membership, members};
use crate::limits::{
    FIRST_MEMBER_GRACE, HELLO_TIMEOUT, MEETING_MESSAGE_MAX, MEETING_RETRY_INTERVAL,
};

/// The members that have met.
pub(crate) enum Meeting {
    /// This is member 0.
    First {
        /// The others, each with its number.
        others: Vec<(u32, UnixStream)>,
    },
    /// This is another member, connected to member 0.
    Other(UnixStream),
}

/// The first message of a member.
#[derive(Debug, Serialize, Deserialize)]
struct Hello {
    member: u32,
    members: u32,
    /// The requested operation, which must be the same for all.
    about: String,
}

/// A message of member 0.
#[derive(Debug, Serialize, Deserialize)]
enum Notice {
    /// The data that the members share.
    Shared(Vec<u8>),
    /// The meeting is complete without these members.
    Met(Vec<u32>),
    /// The meeting failed for all.
    Failed(String),
}

impl Meeting {
    /// Waits until all members have arrived. Returns the missing members, if the group goes on
    /// without them.
    ///
    /// # Errors
    /// Members are missing and the group does not go on without them. If member 0 is missing, it
    /// always fails, since member 0 acts for all.
    pub(crate) async fn gather(
        place: &Membership,
        volume: &ConnectOptions,
        about: &str,
    ) -> Result<(Meeting, Vec<u32>)> {
        let until = Instant::now() + place.wait;
        let address = address(place, volume)?;
        if place.member > 0 {
            let (stream, missing) = join(place, &address, about, until).await?;
            return Ok((Meeting::Other(stream), missing));
        }
        let listener = listen(place, &address, until).await?;
        let mut others: Vec<(u32, UnixStream)> = Vec::new();
        let missing = loop {
            // The number of a member that died while waiting is free again.
            others.retain(|(_, stream)| alive(stream));
            let here = |member| others.iter().any(|(other, _)| *other == member);
            let missing: Vec<u32> = (1..place.members).filter(|m| !here(*m)).collect();
            if missing.is_empty() || Instant::now() >= until {
                break missing;
            }
            let look = until.min(Instant::now() + MEETING_RETRY_INTERVAL);
            let Ok(arrived) = timeout_at(look, listener.accept()).await else {
                continue;
            };
            let (mut stream, _) = arrived.context("cannot accept connections of other members")?;
            if !same_user(&stream)? {
                continue;
            }
            let Ok(Ok(hello)) = timeout_at(
                until.min(Instant::now() + HELLO_TIMEOUT),
                receive::<Hello>(&mut stream),
            )
            .await
            else {
                continue;
            };
            let refused = if (hello.members, &hello.about[..]) != (place.members, about) {
                Some(format!(
                    "member 0 of group `{}` requests another operation, or a group of {} members",
                    place.id, place.members
                ))
            } else if !missing.contains(&hello.member) {
                Some(format!(
                    "member {} of group `{}` has already arrived",
                    hello.member, place.id
                ))
            } else {
                None
            };
            match refused {
                Some(why) => drop(send(&mut stream, &Notice::Failed(why)).await),
                None => others.push((hello.member, stream)),
            }
        };
        let mut meeting = Meeting::First { others };
        if !missing.is_empty() && place.missing == Missing::Fail {
            let why = format!(
                "{} of group `{}` did not arrive within {:?}: nothing was done",
                members(&missing),
                place.id,
                place.wait
            );
            meeting.fail(&why).await;
            bail!(why);
        }
        meeting.notify(&Notice::Met(missing.clone())).await;
        Ok((meeting, missing))
    }

    /// Shares the data of member 0 with all members.
    pub(crate) async fn share(&mut self, given: Option<Vec<u8>>) -> io::Result<Vec<u8>> {
        match self {
            Meeting::First { .. } => {
                let given = given.unwrap_or_default();
                self.notify(&Notice::Shared(given.clone())).await;
                Ok(given)
            }
            Meeting::Other(stream) => match receive(stream).await? {
                Notice::Shared(given) => Ok(given),
                Notice::Failed(why) => Err(io::Error::other(why)),
                Notice::Met(_) => Err(ErrorKind::InvalidData.into()),
            },
        }
    }

    /// As member 0: notifies the others that the operation failed, and why.
    pub(crate) async fn fail(&mut self, why: &str) {
        self.notify(&Notice::Failed(why.to_owned())).await;
    }

    async fn notify(&mut self, what: &Notice) {
        if let Meeting::First { others } = self {
            for (member, stream) in others {
                if let Err(error) = send(stream, what).await {
                    tracing::debug!(member, %error, "a member has disconnected");
                }
            }
        }
    }
}

/// The address of the meeting: a process without the volume's key cannot guess it.
fn address(place: &Membership, volume: &ConnectOptions) -> Result<SocketAddr> {
    let user = rustix::process::geteuid().as_raw();
    let what = format!("weft group {user} {} {}", place.sequence, place.id);
    let name = blake3::keyed_hash(&volume.key.0, what.as_bytes()).to_hex();
    let name = format!("weft-group-{name}");
    SocketAddr::from_abstract_name(name).context("cannot make the address of the group's meeting")
}

/// Listens as member 0. Waits if another process does so.
async fn listen(place: &Membership, address: &SocketAddr, until: Instant) -> Result<UnixListener> {
    loop {
        match net::UnixListener::bind_addr(address) {
            Ok(listener) => {
                listener.set_nonblocking(true)?;
                return Ok(UnixListener::from_std(listener)?);
            }
            Err(e) if e.kind() != ErrorKind::AddrInUse => {
                return Err(e).context("cannot listen for other members");
            }
            Err(_) if Instant::now() >= until => {
                bail!("member 0 of group `{}` has already arrived", place.id);
            }
            Err(_) => sleep(MEETING_RETRY_INTERVAL).await,
        }
    }
}

/// Connects to member 0, which reports the missing members. If member 0 dies before the meeting is
/// complete, another process may take its place.
async fn join(
    place: &Membership,
    address: &SocketAddr,
    about: &str,
    until: Instant,
) -> Result<(UnixStream, Vec<u32>)> {
    let hello = Hello {
        member: place.member,
        members: place.members,
        about: about.to_owned(),
    };
    loop {
        let met = async {
            let stream = net::UnixStream::connect_addr(address)?;
            stream.set_nonblocking(true)?;
            let mut stream = UnixStream::from_std(stream)?;
            if !same_user(&stream)? {
                return Err(ErrorKind::ConnectionRefused.into());
            }
            send(&mut stream, &hello).await?;
            let notice =
                timeout_at(until + FIRST_MEMBER_GRACE, receive::<Notice>(&mut stream)).await??;
            io::Result::Ok((stream, notice))
        };
        match met.await {
            Ok((stream, Notice::Met(missing))) => return Ok((stream, missing)),
            Ok((_, Notice::Failed(why))) => bail!(why),
            Ok((_, Notice::Shared(_))) => bail!(
                "member 0 of group `{}` sent an unexpected message: use the same version of weft for all members",
                place.id
            ),
            Err(_) if Instant::now() < until => sleep(MEETING_RETRY_INTERVAL).await,
            Err(_) => bail!(
                "{} of group `{}` did not arrive within {:?}: nothing was done",
                members(&[0]),
                place.id,
                place.wait
            ),
        }
    }
}

/// Whether both ends belong to one user.
fn same_user(stream: &UnixStream) -> io::Result<bool> {
    Ok(stream.peer_cred()?.uid() == rustix::process::geteuid().as_raw())
}

/// Whether the other end, which sends nothing now, is still connected.
fn alive(stream: &UnixStream) -> bool {
    matches!(stream.try_read(&mut [0]), Err(e) if e.kind() == ErrorKind::WouldBlock)
}

async fn send(stream: &mut UnixStream, what: &impl Serialize) -> io::Result<()> {
    let message = serde_json::to_vec(what)?;
    stream.write_u32(message.len() as u32).await?;
    stream.write_all(&message).await
}

async fn receive<T: for<'a> Deserialize<'a>>(stream: &mut UnixStream) -> io::Result<T> {
    let length = stream.read_u32().await?;
    if length > MEETING_MESSAGE_MAX {
        return Err(ErrorKind::InvalidData.into());
    }
    let mut message = vec![0; length as usize];
    stream.read_exact(&mut message).await?;
    Ok(serde_json::from_slice(&message)?)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use weft_net::VolumeKey;

    use super::*;

    fn place(id: &str, members: u32, member: u32, wait: Duration) -> Membership {
        Membership {
            id: id.to_owned(),
            sequence: 0,
            members,
            member,
            wait,
            missing: Missing::Fail,
        }
    }

    /// A volume that does not exist: a meeting needs only its key.
    fn volume(key: u8) -> ConnectOptions {
        ConnectOptions::new("127.0.0.1:1", VolumeKey([key; 32]))
    }

    /// A group's name that no other run of these tests has.
    fn id(what: &str) -> String {
        format!("{what}-{}", std::process::id())
    }

    async fn shared(id: &str, members: u32, member: u32, about: &str) -> Result<Vec<u8>> {
        let place = place(id, members, member, Duration::from_secs(20));
        let (mut meeting, missing) = Meeting::gather(&place, &volume(7), about).await?;
        assert!(missing.is_empty());
        let given = (member == 0).then(|| b"what member 0 gives".to_vec());
        Ok(meeting.share(given).await?)
    }

    #[tokio::test]
    async fn all_members_get_the_data_of_member_0_in_any_order_of_arrival() {
        for late in 0..3_u64 {
            let id = id("all");
            let came = (0..3).map(|member| {
                let id = id.clone();
                async move {
                    if u64::from(member) == late {
                        sleep(Duration::from_millis(100)).await;
                    }
                    shared(&id, 3, member, "a").await.unwrap()
                }
            });
            for given in futures_util::future::join_all(came).await {
                assert_eq!(given, b"what member 0 gives");
            }
        }
    }

    #[tokio::test]
    async fn a_member_with_another_operation_is_refused_and_its_number_stays_free() {
        let id = id("else");
        let first = tokio::spawn({
            let id = id.clone();
            async move { shared(&id, 2, 0, "a").await }
        });
        let other = shared(&id, 2, 1, "b").await.unwrap_err().to_string();
        assert!(other.contains("requests another operation"), "{other}");
        shared(&id, 2, 1, "a").await.unwrap();
        first.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn groups_of_the_same_name_on_different_volumes_do_not_meet() {
        let place = place(&id("volumes"), 2, 0, Duration::from_millis(300));
        let other = Membership {
            member: 1,
            ..place.clone()
        };
        let (here, there) = (volume(1), volume(2));
        let (one, two) = tokio::join!(
            Meeting::gather(&place, &here, "a"),
            Meeting::gather(&other, &there, "a")
        );
        let (one, two) = (one.err().unwrap(), two.err().unwrap());
        assert!(one.to_string().contains("member 1 of group"), "{one}");
        assert!(two.to_string().contains("member 0 of group"), "{two}");
    }
}
