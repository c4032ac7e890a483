//! Counting filters: the bound of counts, and an item that was added often.

use everbloom::bloom::table::COUNT_MAX;
use everbloom::command::Settings;

use crate::support::server::Server;

/// Returns the reply to a command with the same item many times.
fn repeated(server: &mut Server, command: &str, item: &str, times: usize) -> String {
    server.run(&format!("{command}{}", format!(" {item}").repeat(times)))
}

#[test]
fn more_than_can_be_counted_is_an_error_and_changes_nothing() {
    const ERROR: &str = "-ERR item was added too often: at most 4097 times are counted";
    assert_eq!(COUNT_MAX, 4097);
    let times = COUNT_MAX as usize;
    for words in ["", " CAPACITY 3 NONSCALING", " KEYED"] {
        let mut server = Server::new();
        server.must(&format!("BF.INSERT k ERROR 0.0001{words} COUNTING ITEMS other"));
        let added = repeated(&mut server, "BF.MADD k", "x", 1000);
        assert_eq!(added, format!("*1000 #t{}", " #f".repeat(999)));
        // A thousand occurrences of one item take as much memory as a few.
        let size_bytes = server.filter("k").size_bytes();
        assert!(!repeated(&mut server, "BF.MADD k", "x", times - 1000).contains("-ERR"));
        assert_eq!(server.filter("k").size_bytes(), size_bytes);
        let (before, replicated) = (server.digested("k"), server.replicated.len());
        assert_eq!(server.run("BF.ADD k x"), ERROR);
        assert_eq!(server.run("BF.MADD k x x"), format!("*2 {ERROR} {ERROR}"));
        assert_eq!(server.run("BF.BULKADD k LINES x\nx"), "$!!");
        assert!(server.digested("k") == before);
        assert_eq!((server.replicated.len(), server.log.len()), (replicated, 0));
        // Only this item is refused, and only the others are replicated.
        assert_eq!(server.run("BF.MADD k x y x other"), format!("*4 {ERROR} #t {ERROR} #f"));
        assert_eq!(server.replicated.last().unwrap(), "BF.MADD k y other");
        assert_eq!(server.run("BF.CARD k"), format!(":{}", COUNT_MAX + 3));
        // One deletion makes room for one more.
        assert_eq!(server.run("BF.DEL k x"), "*1 #t");
        assert_eq!(server.run("BF.MADD k x x"), format!("*2 #f {ERROR}"));
        let deleted = repeated(&mut server, "BF.DEL k", "x", times + 1);
        assert_eq!(deleted, format!("*{}{} #f", times + 1, " #t".repeat(times)), "{words}");
        assert_eq!(server.run("BF.MEXISTS k x y other"), "*3 #f #t #t");
        assert_eq!(server.run("BF.CARD k"), ":3");
        server.assert_replicated(Settings::DEFAULT);
    }
}
