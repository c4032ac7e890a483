//! The house of the code, as the imports of src tell it: which room may use which, that no files of a room
//! use one another in a circle, and how long a file is.
//!
//! A file uses another when a path in its code begins with `crate`, `super`, `self` or one of its own modules
//! and leads there, or to a name that a `mod.rs` on the way takes from there: the imports and re-exports of a
//! `mod.rs` are followed to the file that has the thing; its re-exports are no use themselves. Tests within a
//! file may use what they like.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test fails by panicking")]

mod file;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use file::{File, Module};

/// The rooms, each of which may use those before it.
const ROOMS: [&str; 4] = ["bloom", "format", "command", "redis"];
/// Where no files use one another in a circle, no file is longer than [`LINES_MAX`], and half of them are
/// shorter than [`MEDIAN_LINES_MAX`].
const TIDY: [&str; 6] = ["bloom", "format", "command", "redis", "tool", "benches"];
/// The command-line tool: a crate of its own that knows the library by its public names.
const TOOL: &str = "tool";
/// Lines of the longest file.
const LINES_MAX: usize = 350;
/// Lines that the median of a room's files must stay below.
const MEDIAN_LINES_MAX: usize = 150;
/// What lies beside the folders of bloom names none of them, but for these.
const KNOW_ALL_KINDS: [&str; 3] = ["bloom", "bloom::blueprint", "bloom::filter"];

struct House {
    files: BTreeMap<Module, File>,
}

impl House {
    /// The rooms, and beside them the benchmark of the server, whose files name one another by `super` only.
    fn of(package: &Path) -> Self {
        let mut files = BTreeMap::new();
        collect(&package.join("src"), &mut Vec::new(), &mut files);
        assert!(files.len() > 50, "{} files", files.len());
        collect(&package.join("benches/server"), &mut vec!["benches".to_owned()], &mut files);
        Self { files }
    }

    /// The files that `module` uses, itself excepted.
    fn used_by(&self, module: &Module) -> BTreeSet<Module> {
        let file = &self.files[module];
        let used = file.paths.iter().filter_map(|path| self.resolve(module, path, 0));
        used.filter(|used| used != module).collect()
    }

    /// The file in which what `path` says in `module` is defined.
    fn resolve(&self, module: &Module, path: &[String], depth: usize) -> Option<Module> {
        assert!(depth < 20, "{path:?} in {module:?} leads nowhere");
        let (mut at, rest) = self.start(module, path)?;
        let mut rest = rest.to_vec();
        while let [name, more @ ..] = rest.as_slice() {
            let file = &self.files[&at];
            if file.children.contains(name) {
                at.push(name.clone());
                rest = more.to_vec();
                continue;
            }
            // A name that a door has from elsewhere leads on to there.
            if file.is_door {
                let import = file.imports.iter().find(|(given, _)| given == name);
                if let Some((_, target)) = import
                    && let Some(found) = self.resolve(&at, target, depth + 1)
                {
                    return Some(found);
                }
            }
            break;
        }
        Some(at)
    }

    /// The module that a path starts from, and what follows; nothing for a path into another crate or to a
    /// local name.
    fn start<'p>(&self, module: &Module, path: &'p [String]) -> Option<(Module, &'p [String])> {
        let (first, rest) = path.split_first()?;
        match first.as_str() {
            "crate" if module.first().is_some_and(|room| room == TOOL) => Some((vec![TOOL.to_owned()], rest)),
            "crate" => Some((Vec::new(), rest)),
            "self" => Some((module.clone(), rest)),
            "super" => {
                let (mut at, mut rest) = (module[..module.len() - 1].to_vec(), rest);
                while let [first, more @ ..] = rest
                    && first == "super"
                {
                    at.pop();
                    rest = more;
                }
                Some((at, rest))
            }
            name if self.files[module].children.contains(name) => Some((module.clone(), path)),
            _ => None,
        }
    }

    /// The files of a room.
    fn room<'h>(&'h self, room: &'h str) -> impl Iterator<Item = (&'h Module, &'h File)> {
        self.files.iter().filter(move |(module, _)| module.first().is_some_and(|first| first == room))
    }

    /// Files of which each uses the next and the last the first, if there are such in the room.
    fn circle(&self, room: &str) -> Option<Vec<String>> {
        let mut uses: BTreeMap<&Module, BTreeSet<Module>> =
            self.room(room).map(|(module, _)| (module, self.used_by(module))).collect();
        // What uses no other of the room is in no circle, and what then uses none, and so on.
        loop {
            let free: Vec<&Module> = uses
                .iter()
                .filter(|(_, used)| !used.iter().any(|used| uses.contains_key(used)))
                .map(|(module, _)| *module)
                .collect();
            if free.is_empty() {
                break;
            }
            free.into_iter().for_each(|module| {
                uses.remove(module);
            });
        }
        let mut way = vec![(*uses.keys().next()?).clone()];
        loop {
            let next = uses[&way[way.len() - 1]].iter().find(|used| uses.contains_key(used))?.clone();
            if let Some(first) = way.iter().position(|module| *module == next) {
                way.push(next);
                return Some(way[first..].iter().map(|module| module.join("::")).collect());
            }
            way.push(next);
        }
    }
}

fn collect(folder: &Path, module: &mut Module, files: &mut BTreeMap<Module, File>) {
    let mut entries: Vec<_> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        let stem = path.file_stem().unwrap().to_str().unwrap().to_owned();
        if path.is_dir() {
            module.push(stem);
            collect(&path, module, files);
            module.pop();
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let is_door = ["mod", "lib", "main"].contains(&stem.as_str());
            let mut name = module.clone();
            if !is_door {
                name.push(stem);
            }
            files.insert(name, File::of(&fs::read_to_string(&path).unwrap(), is_door));
        }
    }
}

fn house() -> House {
    House::of(Path::new(env!("CARGO_MANIFEST_DIR")))
}

#[test]
fn a_room_uses_only_those_before_it() {
    let house = house();
    for (number, room) in ROOMS.iter().enumerate() {
        assert!(house.room(room).count() > 0, "no room {room}");
        for (module, _) in house.room(room) {
            for used in house.used_by(module) {
                let of = ROOMS.iter().position(|room| used.first().is_some_and(|first| first == room));
                let may = of.is_none_or(|of| of <= number);
                assert!(may, "{} uses {}", module.join("::"), used.join("::"));
            }
        }
    }
}

#[test]
fn the_tool_and_the_rooms_do_not_know_each_other() {
    let house = house();
    assert!(house.room(TOOL).count() > 10);
    let is_bench = |module: &Module| module.first().is_some_and(|room| room == "benches");
    for (module, file) in house.files.iter().filter(|(module, _)| !is_bench(module)) {
        let is_tool = module.first().is_some_and(|room| room == TOOL);
        for path in file.paths.iter().filter(|path| is_tool && path[0] == "everbloom") {
            // A name of the library, or of what such a thing has; never a way into a room.
            let is_name = path[1].starts_with(char::is_uppercase) || path.len() == 2;
            assert!(is_name, "{} uses {}", module.join("::"), path.join("::"));
        }
        for used in house.used_by(module) {
            let of_tool = used.first().is_some_and(|room| room == TOOL);
            assert_eq!(of_tool, is_tool, "{} uses {}", module.join("::"), used.join("::"));
        }
    }
}

#[test]
fn no_files_of_a_room_use_one_another_in_a_circle() {
    let house = house();
    for room in TIDY {
        assert!(house.room(room).count() > 0, "no room {room}");
        assert_eq!(house.circle(room), None, "in {room}");
    }
}

#[test]
fn what_all_kinds_share_names_none_of_them() {
    let house = house();
    let kinds = ["everbloom", "keyed", "redisbloom", "valkeybloom", "client", "union", "counting", "window"];
    let is_of_a_kind = |module: &Module| module.get(1).is_some_and(|name| kinds.contains(&name.as_str()));
    for (module, _) in house.room("bloom").filter(|(module, _)| !is_of_a_kind(module)) {
        if KNOW_ALL_KINDS.contains(&module.join("::").as_str()) {
            continue;
        }
        for used in house.used_by(module) {
            let is_kind = used.first().is_some_and(|first| first == "bloom") && is_of_a_kind(&used);
            assert!(!is_kind, "{} uses {}", module.join("::"), used.join("::"));
        }
    }
}

#[test]
fn files_are_short() {
    let house = house();
    for room in TIDY {
        let mut lines: Vec<(usize, String)> =
            house.room(room).map(|(module, file)| (file.lines, module.join("::"))).collect();
        lines.sort();
        let (median, longest) = (&lines[lines.len() / 2], &lines[lines.len() - 1]);
        assert!(median.0 < MEDIAN_LINES_MAX, "the median of {room} is {median:?}");
        assert!(longest.0 <= LINES_MAX, "the longest of {room} is {longest:?}");
    }
}

#[test]
fn imports_lead_to_the_file_that_has_the_thing() {
    let house = house();
    let module = |path: &str| path.split("::").map(str::to_owned).collect::<Module>();
    let used = |path: &str| house.used_by(&module(path));
    // Through a re-export of a door, within braces, and by a path in the code.
    assert!(used("format::seal").contains(&module("bloom::everbloom::hash")), "{:?}", used("format::seal"));
    assert!(used("bloom::client::layers").contains(&module("bloom::everbloom::probing")));
    assert!(used("redis::dispatch").contains(&module("command::table")));
    assert!(!used("bloom::chain").contains(&module("bloom::everbloom::family")));
}

#[test]
fn a_circle_is_found() {
    let file = |text: &str| File::of(text, false);
    let door = |text: &str| File::of(text, true);
    let module = |path: &str| path.split("::").map(str::to_owned).collect::<Module>();
    let mut files = BTreeMap::from([
        (Vec::new(), door("mod room;")),
        (module("room"), door("mod a;\nmod b;\nmod c;\npub use a::A;\npub use b::{B, Other as C};")),
        (module("room::a"), file("use std::fmt;\nuse super::{C, c::D};\nstruct A;")),
        (module("room::b"), file("// super::a::A\nfn f() -> &str { \"super::a::A\" }")),
        (module("room::c"), file("#[cfg(test)]\nmod tests {\n use super::super::A;\n}")),
    ]);
    assert_eq!(House { files: files.clone() }.circle("room"), None);
    files.insert(module("room::b"), file("fn f() { crate::room::A::new(); }"));
    let circle = House { files }.circle("room").unwrap();
    assert_eq!(circle, ["room::a", "room::b", "room::a"]);
}
