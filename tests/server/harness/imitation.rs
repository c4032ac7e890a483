//! Servers that are imitated, for what no real server does when a test needs it.

use std::io::{BufReader, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::thread;

use redis::{Parser, from_redis_value};

/// Starts a server that replies to each command what `reply` returns, and closes the connection for `None`. Returns
/// its address.
pub(crate) fn imitate(reply: impl Fn(&[String]) -> Option<String> + Send + Sync + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("redis://{}", listener.local_addr().unwrap());
    let reply = Arc::new(reply);
    thread::spawn(move || {
        for stream in listener.incoming() {
            let (stream, reply) = (stream.unwrap(), Arc::clone(&reply));
            thread::spawn(move || {
                let (mut reader, mut parser) = (BufReader::new(&stream), Parser::new());
                while let Ok(command) = parser.parse_value(&mut reader) {
                    let words: Vec<Vec<u8>> = from_redis_value(command).unwrap();
                    let words: Vec<String> =
                        words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
                    let Some(text) = reply(&words) else { return };
                    if (&stream).write_all(text.as_bytes()).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}
