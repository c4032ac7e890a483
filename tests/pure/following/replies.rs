//! The replies of BF.FOLLOW, and copies of hostile servers.

use everbloom::{CommandReply, FollowError, FollowProgress, Follower};
use everbloom_filter::generation::AddTime;
use everbloom_filter::prefetch::NoPrefetch;
use everbloom_filter::{AddPlace, ItemHash, RepeatError};

use crate::following::{Near, digest};
use crate::support::Random;
use crate::support::make::{counting, plain, promise};
use crate::support::server::Server;

#[test]
fn replies_have_the_changes_since_a_position() {
    let mut server = Server::new();
    server.must("BF.RESERVE f 0.01 100");
    let start = server.run("BF.FOLLOW f COUNT 5");
    let id = start.split(' ').nth(1).unwrap()[1..].to_owned();
    assert_eq!(start, format!("*2 :{id} :0"));
    assert_eq!(server.run("BF.FOLLOW f 1 0"), format!("*3 :{id} :0 _"));
    assert_eq!(server.run(&format!("BF.FOLLOW f {id} 1")), format!("*3 :{id} :0 _"));
    assert_eq!(server.run(&format!("BF.FOLLOW f {id} 0")), format!("*3 :{id} :0 $"));
    server.run("BF.MADD f a b a");
    server.run("BF.ADD f a");
    server.run(&format!("BF.FOLLOW f {id} 0 count 1"));
    assert_eq!(
        (&server.reply[..3], server.bulk.len()),
        (&["*3".into(), format!(":{id}"), ":1".into()][..], 17)
    );
    server.run(&format!("BF.FOLLOW f {id} 1"));
    assert_eq!((&server.reply[2], server.bulk.len()), (&":3".to_owned(), 34));
    assert!(server.replicated.iter().all(|line| !line.contains("FOLLOW")));
}

/// Returns whether the id of a follower ends with this change.
fn ends_id(server: &mut Server, change: &str) -> bool {
    let reply = server.run("BF.FOLLOW f");
    let position: Vec<String> = reply.split(' ').skip(1).map(|word| word[1..].to_owned()).collect();
    server.must(change);
    server.run(&format!("BF.FOLLOW f {}", position.join(" "))).ends_with(" _")
}

#[test]
fn changes_other_than_adds_end_the_id() {
    let mut server = Server::new();
    for line in ["BF.RESERVE f 0.01 100", "BF.MADD f a b", "BF.RESERVE g 0.01 100", "BF.ADD g c"] {
        server.must(line);
    }
    assert!(!ends_id(&mut server, "BF.ADD f d") && !ends_id(&mut server, "BF.ADD f d"));
    assert!(!ends_id(&mut server, "BF.EXISTS f d") && !ends_id(&mut server, "BF.SCANDUMP f 0"));
    assert!(ends_id(&mut server, "BF.MERGE f g"));
    assert!(ends_id(&mut server, "BF.CLEAR f"));
    let filter = server.take("f");
    server.set("f", filter);
    assert!(server.run("BF.FOLLOW f 1 1").ends_with(" _"));
    // Counting filters have no log.
    server.take("f");
    server.must("BF.RESERVE f 0.01 100 COUNTING");
    for line in ["BF.ADD f a", "BF.MADD f a b", "CF.ADD f c", "BF.DEL f a", "CF.DEL f c"] {
        assert!(ends_id(&mut server, line), "{line}");
    }
    assert!(!ends_id(&mut server, "BF.DEL f absent"));
    // An imported filter has one when its table takes the items.
    server.take("f");
    server.must("BF.IMPORT f EMPTY SCHEME guava-mitz64 BITS 4500 HASHES 5 SHIFT 6 CAPACITY 3 EXPANSION 4");
    assert!(ends_id(&mut server, "BF.MADD f a b"));
    assert!(ends_id(&mut server, "BF.MADD f c d e"));
    assert!(!ends_id(&mut server, "BF.MADD f h i j"));
    // A load.
    let dump = server.run("BF.SCANDUMP g 0");
    assert!(dump.starts_with("*2"));
}

#[test]
fn a_filter_that_is_followed_replies_and_grows_as_another() {
    for creation in
        ["BF.RESERVE f 0.01 50", "BF.RESERVE f 0.01 50 NONSCALING", "BF.RESERVE f 0.01 9 WINDOW 14"]
    {
        let (mut followed, mut other) = (Server::new(), Server::new());
        for server in [&mut followed, &mut other] {
            server.settings.max_filter_bytes = 2000;
            server.must(creation);
        }
        followed.must("BF.FOLLOW f");
        let mut random = Random(1);
        for _ in 0..400 {
            let items: Vec<String> =
                (0..1 + random.below(9)).map(|_| random.below(3000).to_string()).collect();
            let line = format!("BF.MADD f {}", items.join(" "));
            assert_eq!(followed.run(&line), other.run(&line));
            assert_eq!(followed.number("f", "Size"), other.number("f", "Size"));
        }
        assert_eq!(digest(followed.filter("f")), digest(other.filter("f")));
        assert_eq!(followed.replicated, other.replicated);
    }
}

#[test]
fn a_load_that_takes_longer_than_the_ring_lasts_happens_once() {
    let mut server = Server::new();
    server.settings.follow_log_bytes = 17 * 100;
    server.settings.max_filter_bytes = 1 << 30;
    server.must("BF.RESERVE f 0.0001 30000000");
    server.add("f", "early", 0..1000);
    let mut near = Near::new("f");
    for step in 0.. {
        server.add("f", &format!("during{step}-"), 0..30);
        near.step(&mut server).unwrap();
        if near.loads > 0 {
            assert!(step > 8, "chunks and changes alternate");
            break;
        }
    }
    near.catch_up(&mut server);
    assert_eq!((near.loads, near.lost), (1, 0));
    let copy = near.copy.unwrap();
    let early: Vec<String> = (0..1000).map(|number| format!("early{number}")).collect();
    assert!(early.iter().all(|item| copy.filter().contains(item.as_bytes())));
    assert!((0..30).all(|number| copy.filter().contains(format!("during3-{number}").as_bytes())));
}

#[test]
fn own_adds_are_found_at_once() {
    for creation in
        ["BF.RESERVE f 0.01 40", "BF.RESERVE f 0.01 40 NONSCALING", "BF.RESERVE f 0.01 10 WINDOW 14"]
    {
        let mut server = Server::at(1_800_000_000_000);
        server.must(creation);
        let mut near = Near::new("f");
        near.catch_up(&mut server);
        for number in 0..40 {
            let item = number.to_string();
            server.run(&format!("BF.MADD f other{number} {item}"));
            let copy = near.copy.as_mut().unwrap();
            if number % 2 == 0 && server.reply.get(2).is_some_and(|reply| reply == "#t") {
                assert!(copy.add(item.as_bytes(), server.now_ms, true));
                assert!(copy.filter().contains_at(item.as_bytes(), server.now_ms));
            }
            if number % 7 == 0 {
                near.catch_up(&mut server);
            }
        }
        near.catch_up(&mut server);
        let copy = near.copy.unwrap();
        for number in 0..40 {
            let item = format!("other{number}");
            let found = server.run(&format!("BF.EXISTS f {item}")) == "#t";
            assert!(!found || copy.filter().contains_at(item.as_bytes(), server.now_ms));
        }
        copy.filter().internal_validate().unwrap();
        assert_eq!((near.loads, near.lost), (1, 0));
    }
}

#[test]
fn a_copy_refuses_places_that_its_filter_cannot_have() {
    let hash = ItemHash { h1: 1, h2: 2 };
    let place = |layers, has_table, added, now| AddPlace {
        layers,
        has_table,
        time: AddTime { added, now },
        has_life: false,
    };
    let fixed = || plain(promise(0.01, 100, 0));
    for (mut filter, bad) in [
        (fixed(), place(2, false, 0, 0)),
        (fixed(), place(0, false, 0, 0)),
        (fixed(), place(1, true, 0, 0)),
        (fixed(), place(1 << 20, false, 0, 0)),
        (plain(promise(0.01, 100, 2)), place(3, true, 0, 0)),
        (plain(promise(0.01, 100, 2)), place(1, true, 5, 4)),
        (counting(promise(0.01, 100, 2)), place(0, true, 0, 0)),
    ] {
        let repeated = filter.repeat(&bad, hash, NoPrefetch);
        assert!(matches!(repeated, Err(RepeatError::Place | RepeatError::Refused(_))), "{bad:?}");
    }
}

#[test]
fn hostile_replies_are_errors() {
    use CommandReply::{Array, Bytes, Error, Integer, Nil};
    let bad = [
        Nil,
        Integer(1),
        Array(vec![]),
        Array(vec![Integer(1)]),
        Array(vec![Bytes(vec![]), Integer(1)]),
        Bytes(vec![0; 100]),
        Error("ERR no".into()),
    ];
    let start = Array(vec![Integer(1), Integer(2)]);
    for reply in bad {
        let mut follower = Follower::new("f");
        assert!(follower.take(reply.clone()).is_err());
        follower.take(start.clone()).unwrap();
        assert!(follower.take(reply.clone()).is_err());
        assert_eq!(follower.command().len(), 2, "the load begins anew");
    }
    let mut follower = Follower::new("f");
    let denied = follower.take(Error("NOPERM this user has no permissions".into())).unwrap_err();
    assert!(matches!(denied, FollowError::NotPermitted(_)) && denied.to_string().contains("+bf.follow"));
    assert!(matches!(follower.take(Error("ERR not found".into())), Ok(FollowProgress::Missing)));
    // A copy that has caught up keeps its position at an error.
    let mut server = Server::new();
    server.must("BF.RESERVE f 0.01 100");
    let mut near = Near::new("f");
    near.catch_up(&mut server);
    let command = near.follower.command();
    assert!(near.follower.take(Error("LOADING soon".into())).is_err());
    assert_eq!(near.follower.command(), command);
    let copy = near.copy.as_mut().unwrap();
    assert!(copy.apply(&[0; 16]).is_err() && copy.apply(&[0; 17]).is_err());
    assert!(copy.apply(&[127; 17]).is_err());
}

/// The items of an imported bitmap are estimated, and may be more than its capacity.
#[test]
fn a_copy_of_a_full_bitmap_is_valid_after_adds() {
    let mut server = Server::new();
    server.must("BF.IMPORT f SOURCE string SCHEME murmur3-salted BITS 8 HASHES 1 CAPACITY 1");
    let mut near = Near::new("f");
    near.catch_up(&mut server);
    let mut added = (0..).map(|item| server.run(&format!("BF.ADD f item-{item}")));
    assert!(added.any(|reply| reply == "#t"));
    near.catch_up(&mut server);
    let copy = near.copy.unwrap();
    assert_eq!((near.loads, copy.filter().digest()), (1, digest(server.filter("f"))));
}
