#![allow(missing_docs)]
#[path = "support/mod.rs"]
mod support;
use support::make::*;
use support::Random;
use everbloom::bloom::NoPrefetch;
#[test]
fn dbg() {
    let mut random = Random(0x0062_6174_6368);
    let (mut b, mut s) = (window(promise(0.05, 10, 1), 14_000), window(promise(0.05, 10, 1), 14_000));
    let mut now_ms = START_MS;
    for round in 0..150 {
        now_ms += random.next() % 300;
        set_time(&mut b, now_ms);
        set_time(&mut s, now_ms);
        let items: Vec<Vec<u8>> = (0..random.below(130)).map(|_| random.below(4000).to_string().into_bytes()).collect();
        let items: Vec<&[u8]> = items.iter().map(Vec::as_slice).collect();
        let mut out = vec![];
        b.add_many(&items, &ANY, NoPrefetch, |o| { out.push(o); true });
        let mut i = 0;
        for item in &items { let o = add(&mut s, item); assert_eq!(o, out[i]); i += 1; }
        let (eb, es) = (b.take_expired(), s.take_expired());
        println!("{round} {} {} {} {} {:?} {:?}", items.len(), b.layer_count(), s.layer_count(), now_ms - START_MS, eb.map(|f| f.layer_count()), es.map(|f| f.layer_count()));
        let (cb, cs): (Vec<_>, Vec<_>) = (b.layers().iter().map(|l| l.cells().columns().unwrap().history).collect(), s.layers().iter().map(|l| l.cells().columns().unwrap().history).collect());
        if cb != cs { for (i, (x, y)) in cb.iter().zip(&cs).enumerate() { if x != y { println!("layer {i} of {}: {:?} {:?}", cb.len(), x, y); break; } } panic!("differs") }
        let later_ms = now_ms + random.next() % 15_000;
        set_time(&mut b, later_ms);
        }
}
