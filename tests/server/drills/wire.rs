//! Random commands over the wire: well-formed, changed and truncated.

use std::io::Write;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use super::input::Input;
use super::words::{KEYS, creation, word};
use super::{Drill, choices};
use crate::harness::{Client, Server, Site, Test, reseal, show, tests};

pub(super) const TESTS: &[Test] = tests![random_commands_do_not_harm_the_server];

/// Commands per round.
const ROUND: u64 = 500;

fn random_commands_do_not_harm_the_server(site: &Site) {
    let mut drill = Drill::new("random commands", site, 4);
    let server = site.launch().with_option("bf.max-filter-bytes 4mb").with("hz 50").start();
    let mut control = Control::new(&server);
    let names = commands(&mut control.client);
    let before = control.client.info_number("used_memory");
    while drill.goes_on() {
        // Each round has a new client of a random protocol, because the last client may have selected another database.
        let resp3 = drill.random.below(2) == 1;
        let mut client = Client::connect(server.port(), resp3).expect("connect");
        let mut payloads = Vec::new();
        for _ in 0..ROUND {
            let bytes = choices(&mut drill.random, 600);
            let begin = Instant::now();
            step(&mut client, &names, &mut Input::new(&bytes), &mut payloads);
            drill.most("ms at most", millis(begin));
            drill.count("commands", 1);
        }
        for _ in 0..10 {
            cut(&server, &choices(&mut drill.random, 100));
        }
        control.check(&mut drill);
    }
    if drill.is_soak() {
        // The longest item that a server accepts by default.
        let item = vec![b'x'; 512 << 20];
        assert_eq!(control.client.ask(&[b"BF.ADD", b"huge".as_slice(), &item]), "1");
        assert_eq!(control.client.ask(&[b"BF.EXISTS", b"huge".as_slice(), &item]), "1");
        for command in
            ["BF.BULKADD huge LINES", "BF.BULKEXISTS huge FIXED 7", "BF.LOAD other", "BF.LOADCHUNK huge 2"]
        {
            let words = command.split(' ').map(str::as_bytes);
            control.client.call(&words.chain([item.as_slice()]).collect::<Vec<_>>());
        }
        control.check(&mut drill);
    }
    control.client.say("SCRIPT FLUSH");
    control.client.say("FLUSHALL SYNC");
    assert_eq!(control.client.info_number("bf_bytes"), 0);
    crate::harness::wait_until("memory returns to its start", || {
        control.client.info_number("used_memory") < before + (4 << 20)
    });
}

fn millis(begin: Instant) -> u64 {
    u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX)
}

/// A client with a filter that no other client writes to.
struct Control {
    client: Client,
    items: u64,
    new: i64,
}

impl Control {
    fn new(server: &Server) -> Self {
        let mut client = server.client();
        assert_eq!(client.say("SELECT 9"), "+OK");
        assert_eq!(client.say("BF.RESERVE control 0.0001 100"), "+OK");
        Self { client, items: 0, new: 0 }
    }

    /// Checks that the server works, and that the filter is unchanged and accepts items.
    fn check(&mut self, drill: &mut Drill) {
        let begin = Instant::now();
        assert_eq!(self.client.say("PING"), "+PONG");
        drill.most("ms for a PING at most", millis(begin));
        for _ in 0..40 {
            self.new += self.client.int(&format!("BF.ADD control {}", self.items));
            self.items += 1;
        }
        assert_eq!(self.client.int("BF.CARD control"), self.new);
        for item in (0..self.items).rev().take(2000) {
            assert_eq!(self.client.int(&format!("BF.EXISTS control {item}")), 1, "{item}");
        }
    }
}

fn commands(client: &mut Client) -> Vec<Vec<u8>> {
    let names = client.array(&["COMMAND", "LIST", "FILTERBY", "MODULE", "bf"]);
    let names: Vec<_> =
        names.iter().map(|name| show(name).trim_matches(['"', '+']).as_bytes().to_vec()).collect();
    assert!(names.len() > 10);
    names
}

/// Runs one random step and ignores the reply.
fn step(client: &mut Client, names: &[Vec<u8>], input: &mut Input<'_>, payloads: &mut Vec<Vec<u8>>) {
    let key = *input.choose(&KEYS[..5]);
    let mut words: Vec<Vec<u8>> = Vec::new();
    let choice = input.byte();
    match choice {
        0..100 => {
            words.push(input.choose(names).clone());
            words.push(key.to_vec());
            words.extend((0..input.below(8)).map(|_| word(input)));
        }
        100..130 => {
            words.extend([b"BF.INSERT".to_vec(), key.to_vec()]);
            words.extend(creation(input, true));
            words.push(b"ITEMS".to_vec());
            words.extend(input.items(20));
        }
        130..190 => {
            words.extend([input.choose(&[&b"BF.MADD"[..], b"BF.MEXISTS", b"BF.DEL"]).to_vec(), key.to_vec()]);
            words.extend(input.items(30));
        }
        190..200 => {
            words.extend([b"BF.MERGE".to_vec(), key.to_vec(), input.choose(&KEYS[..5]).to_vec()]);
            words.extend(input.flag().then_some(b"FORCE".to_vec()));
        }
        200..225 => return restore(client, key, input, payloads),
        225..232 => words.extend([b"DEL".to_vec(), key.to_vec()]),
        232..236 => words.extend([b"PEXPIRE".to_vec(), key.to_vec(), b"1".to_vec()]),
        236..240 => words.extend([b"SET".to_vec(), key.to_vec(), input.bytes(40).to_vec()]),
        240..244 => words.extend([b"SELECT".to_vec(), (input.byte() % 8).to_string().into_bytes()]),
        244..246 => words.extend([b"HELLO".to_vec(), b"3".to_vec()]),
        246..250 => {
            let script = "return redis.pcall(unpack(ARGV))";
            words.extend([b"EVAL".to_vec(), script.as_bytes().to_vec(), b"0".to_vec()]);
            words.extend([input.choose(names).clone(), key.to_vec()]);
            words.extend((0..input.below(4)).map(|_| word(input)));
        }
        250..253 => {
            client.say("MULTI");
            for _ in 0..input.below(4) {
                let mut queued = vec![input.choose(names).clone(), key.to_vec()];
                queued.extend((0..input.below(4)).map(|_| word(input)));
                client.call(&queued);
            }
            words.push(b"EXEC".to_vec());
        }
        _ => words.extend([
            b"COPY".to_vec(),
            key.to_vec(),
            input.choose(&KEYS[..5]).to_vec(),
            b"REPLACE".to_vec(),
        ]),
    }
    client.call(&words);
}

/// Restores a dumped value, unchanged or changed, with a correct checksum.
fn restore(client: &mut Client, key: &[u8], input: &mut Input<'_>, payloads: &mut Vec<Vec<u8>>) {
    let dumped = client.call(&[b"DUMP", key]);
    if let redis::Value::BulkString(payload) = dumped
        && payload.len() < 20_000
        && payloads.len() < 50
    {
        payloads.push(payload);
    }
    if payloads.is_empty() {
        return;
    }
    let mut payload = input.choose(payloads).clone();
    let payload_bytes = payload.len() - 10;
    for _ in 0..input.below(5) {
        let at = usize::from(input.u16()) % payload_bytes;
        let at = if input.flag() { at } else { at % 150 % payload_bytes };
        payload[at] = if input.flag() { input.byte() } else { payload[at] ^ (1 << (input.byte() & 7)) };
    }
    if input.byte() < 20 {
        let at = usize::from(input.u16()) % payload_bytes;
        payload.drain(at..payload_bytes);
    }
    reseal(&mut payload);
    client.call(&[b"RESTORE", key, b"0", &payload, b"REPLACE"]);
}

/// Sends a pipeline that ends in the middle of a command, and closes the connection.
fn cut(server: &Server, bytes: &[u8]) {
    let mut stream = TcpStream::connect(("127.0.0.1", server.port())).expect("connect");
    stream.set_write_timeout(Some(Duration::from_secs(10))).expect("timeout");
    let whole = b"*3\r\n$6\r\nBF.ADD\r\n$1\r\na\r\n$3\r\ncut\r\n*4\r\n$7\r\nBF.MADD\r\n$1\r\na\r\n$1\r\nx\r\n$5\r\n01234\r\n";
    let end = usize::from(bytes[0]) % whole.len();
    let mut sent = whole[..end].to_vec();
    if bytes[1] < 60 {
        sent.extend(bytes);
    }
    // The server may have closed the connection first.
    let _ = stream.write_all(&sent);
}
