//! What fuzzing has found, one test each.

use crate::fuzz::forge;
use crate::fuzz::server::Server;

/// A header of our own: the chain's, then layers of 1024 bits for 77 items.
fn header_of(kind: u8, reserved_items: u64, expansion: u32, layers: u32) -> Vec<u8> {
    let rate = 0.01f64.to_le_bytes();
    let parts = [&layers.to_le_bytes()[..], &expansion.to_le_bytes(), &rate, &reserved_items.to_le_bytes()];
    let mut body = parts.concat();
    for _ in 0..layers {
        body.extend([1, 0, 7, 1, 0, 0, 0, 0]);
        [1024u64, 77, 0, 0].iter().for_each(|field| body.extend(field.to_le_bytes()));
    }
    forge::sealed_header(&forge::header(kind, &body), Some(1))
}

/// The chain's header says how large a filter was reserved; its layers may be smaller. BF.CLEAR made the reserved one,
/// whatever its size.
#[test]
fn a_header_that_lies_about_the_capacity_makes_no_large_filter_when_cleared() {
    for (kind, name) in [(0, "own"), (3, "counting")] {
        let mut server = Server::new();
        server.settings.max_filter_bytes = 1 << 20;
        let header = header_of(kind, 1 << 30, 2, 1);
        let key = name.as_bytes();
        assert_eq!(server.call(&[b"BF.LOADCHUNK", key, b"1", &header]), "+OK", "{name}");
        let reply = server.call(&[b"BF.CLEAR", key]);
        assert!(reply.starts_with("-ERR filter would take "), "{name}: {reply}");
        assert!(server.keys[key].size_bytes() < 1 << 20);
        // As large as it is it may be, whatever the setting says by then.
        let header = header_of(kind, 77, 2, 1);
        assert_eq!(server.call(&[b"BF.LOADCHUNK", b"honest", b"1", &header]), "+OK");
        server.settings.max_filter_bytes = 1;
        assert_eq!(server.call(&[b"BF.CLEAR", b"honest"]), "+OK", "{name}");
        server.keys.clear();
    }
}
