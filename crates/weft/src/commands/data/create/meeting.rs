//! A meeting of a group's members on one machine: member 0 waits for the others, then sends each of
//! them a message.
//!
//! Servers join members that read or write together; what comes before, one attach for all, members
//! must share among themselves. Programs have ways of their own for that. Processes of a shell loop
//! have none, so they meet at a Unix socket in Linux's abstract namespace, which leaves nothing
//! behind, whichever process dies. Its name follows from the volume's key, the user, the group and
//! the number of the collective; both ends learn from the kernel that the other belongs to the same
//! user.
//!
//! Deliberately absent: members on several machines. Those attach each for themselves, which costs
//! a request each.

use std::io::{self, ErrorKind};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{self, SocketAddr};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::time::{Instant, sleep, timeout_at};
use weft_client::{ConnectOptions, Missing};

use crate::args::group::{Membership, members};

/// Pause between two attempts to reach a member that has not come yet.
const PAUSE: Duration = Duration::from_millis(20);
/// How long a connected member may take to identify itself: the others wait meanwhile.
const HELLO: Duration = Duration::from_secs(1);
/// How much longer than it says member 0 is waited for.
const GRACE: Duration = Duration::from_secs(5);
/// Bytes of one message, at most: an attachment is a few KiB.
const MESSAGE_MAX: u32 = 64 << 20;

/// The members that have met.
pub(crate) enum Meeting {
    /// This is member 0.
    First {
        /// The others, each with its number.
        others: Vec<(u32, UnixStream)>,
    },
    /// This is another one, connected with member 0.
    Other(UnixStream),
}

/// What a member says when it comes.
#[derive(Debug, Serialize, Deserialize)]
struct Hello {
    member: u32,
    members: u32,
    /// What it wants done; all want the same.
    about: String,
}

/// What member 0 tells.
#[derive(Debug, Serialize, Deserialize)]
enum Told {
    /// What the members share.
    Shared(Vec<u8>),
    /// The meeting is complete without these members.
    Met(Vec<u32>),
    /// It failed for all.
    Failed(String),
}

impl Meeting {
    /// Waits until all members have come, and returns the missing ones that the group goes on
    /// without.
    ///
    /// # Errors
    /// When members are missing and the group does not go on without them, and always when member 0
    /// is missing, which acts for all.
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
            // A member that died while it waited has left its place.
            others.retain(|(_, stream)| alive(stream));
            let here = |member| others.iter().any(|(other, _)| *other == member);
            let missing: Vec<u32> = (1..place.members).filter(|m| !here(*m)).collect();
            if missing.is_empty() || Instant::now() >= until {
                break missing;
            }
            let look = until.min(Instant::now() + PAUSE);
            let Ok(came) = timeout_at(look, listener.accept()).await else {
                continue;
            };
            let (mut stream, _) = came.context("cannot hear other members")?;
            if !same_user(&stream)? {
                continue;
            }
            let Ok(Ok(hello)) = timeout_at(
                until.min(Instant::now() + HELLO),
                receive::<Hello>(&mut stream),
            )
            .await
            else {
                continue;
            };
            let refused = if (hello.members, &hello.about[..]) != (place.members, about) {
                Some(format!(
                    "member 0 of group `{}` wants something else, or says that it has {} members",
                    place.id, place.members
                ))
            } else if !missing.contains(&hello.member) {
                Some(format!(
                    "member {} of group `{}` is there already",
                    hello.member, place.id
                ))
            } else {
                None
            };
            match refused {
                Some(why) => drop(send(&mut stream, &Told::Failed(why)).await),
                None => others.push((hello.member, stream)),
            }
        };
        let mut meeting = Meeting::First { others };
        if !missing.is_empty() && place.missing == Missing::Fail {
            let why = format!(
                "{} of group `{}` did not come within {:?}; nothing was done",
                members(&missing),
                place.id,
                place.wait
            );
            meeting.fail(&why).await;
            bail!(why);
        }
        meeting.tell(&Told::Met(missing.clone())).await;
        Ok((meeting, missing))
    }

    /// What member 0 gives, in all members.
    pub(crate) async fn share(&mut self, given: Option<Vec<u8>>) -> io::Result<Vec<u8>> {
        match self {
            Meeting::First { .. } => {
                let given = given.unwrap_or_default();
                self.tell(&Told::Shared(given.clone())).await;
                Ok(given)
            }
            Meeting::Other(stream) => match receive(stream).await? {
                Told::Shared(given) => Ok(given),
                Told::Failed(why) => Err(io::Error::other(why)),
                Told::Met(_) => Err(ErrorKind::InvalidData.into()),
            },
        }
    }

    /// In member 0: tells the others that it failed, and why.
    pub(crate) async fn fail(&mut self, why: &str) {
        self.tell(&Told::Failed(why.to_owned())).await;
    }

    async fn tell(&mut self, what: &Told) {
        if let Meeting::First { others } = self {
            for (member, stream) in others {
                if let Err(error) = send(stream, what).await {
                    tracing::debug!(member, %error, "a member does not listen any more");
                }
            }
        }
    }
}

/// Where the members meet: a process without the volume's key cannot guess it.
fn address(place: &Membership, volume: &ConnectOptions) -> Result<SocketAddr> {
    let user = rustix::process::geteuid().as_raw();
    let what = format!("weft group {user} {} {}", place.sequence, place.id);
    let name = blake3::keyed_hash(&volume.key.0, what.as_bytes()).to_hex();
    let name = format!("weft-group-{name}");
    SocketAddr::from_abstract_name(name).context("cannot name a place to meet")
}

/// Waits for others as member 0, unless another one does so all the time.
async fn listen(place: &Membership, address: &SocketAddr, until: Instant) -> Result<UnixListener> {
    loop {
        match net::UnixListener::bind_addr(address) {
            Ok(listener) => {
                listener.set_nonblocking(true)?;
                return Ok(UnixListener::from_std(listener)?);
            }
            Err(e) if e.kind() != ErrorKind::AddrInUse => {
                return Err(e).context("cannot wait for other members");
            }
            Err(_) if Instant::now() >= until => {
                bail!("member 0 of group `{}` is there already", place.id);
            }
            Err(_) => sleep(PAUSE).await,
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
            let told = timeout_at(until + GRACE, receive::<Told>(&mut stream)).await??;
            io::Result::Ok((stream, told))
        };
        match met.await {
            Ok((stream, Told::Met(missing))) => return Ok((stream, missing)),
            Ok((_, Told::Failed(why))) => bail!(why),
            Ok((_, Told::Shared(_))) => bail!("member 0 of group `{}` makes no sense", place.id),
            Err(_) if Instant::now() < until => sleep(PAUSE).await,
            Err(_) => bail!(
                "{} of group `{}` did not come within {:?}; nothing was done",
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

/// Whether the other end, which has nothing to say now, is still there.
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
    if length > MESSAGE_MAX {
        return Err(ErrorKind::InvalidData.into());
    }
    let mut message = vec![0; length as usize];
    stream.read_exact(&mut message).await?;
    Ok(serde_json::from_slice(&message)?)
}

#[cfg(test)]
mod tests {
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

    /// A volume that is not there: meeting needs its key only.
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
    async fn all_get_what_member_0_gives_whoever_comes_first() {
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
    async fn who_wants_something_else_is_told_and_its_place_stays_free() {
        let id = id("else");
        let first = tokio::spawn({
            let id = id.clone();
            async move { shared(&id, 2, 0, "a").await }
        });
        let other = shared(&id, 2, 1, "b").await.unwrap_err().to_string();
        assert!(other.contains("wants something else"), "{other}");
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
