//! Messages of connections: handshake, keep-alive, credit and cancellation.

use weft_proto::session::{
    Cancel, Challenge, Credit, Hello, Never, Nothing, Ping, Pong, Proof, Role, Welcome, Wire,
};

use super::cases::Golden;
use super::values::bytes;

pub fn messages(golden: &mut Golden) {
    golden.call(
        &Hello {
            version_oldest: 1,
            version_newest: 300,
            nonce: bytes(0, 32),
            role: Role::MetaService as i32,
            client: u64::MAX,
            volume: bytes(64, 16),
            reply_window: 2 << 20,
            local: "weft-6c".to_owned(),
            wire_least: Wire::Mac as i32,
            wire_most: Wire::Encrypted as i32,
        },
        &Challenge {
            version: 1,
            nonce: bytes(32, 32),
            volume: bytes(64, 16),
            local: "weft-6c".to_owned(),
            wire: Wire::Encrypted as i32,
        },
    );
    golden.call(
        &Proof {
            proof: bytes(96, 32),
        },
        &Welcome {
            proof: bytes(128, 32),
            server: Some(0),
            window: 2 << 20,
            calls: 256,
            incarnation: 0x0102_0304_0506_0708,
        },
    );
    golden.call(&Ping {}, &Pong {});
    golden.call(
        &Credit {
            bytes: 65_536,
            request: 300,
        },
        &Nothing {},
    );
    golden.call(&Cancel { request: 300 }, &Nothing {});
    golden.call(&Nothing {}, &Never {});
}
