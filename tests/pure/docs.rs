//! docs/commands.md agrees with the table of commands and the error texts, and docs/sizing.md with the sizes of
//! filters. docs/troubleshooting.md has every error text of the code. Links have targets.

use crate::support::ROOT;
use std::path::{Path, PathBuf};

use everbloom::{BloomFilter, Options};
use everbloom_command::COMMANDS;
use everbloom_command::table::{ArgumentKind, ArgumentSpec, CommandSpec, Presence};

fn read(path: &str) -> String {
    std::fs::read_to_string(Path::new(ROOT).join(path)).unwrap()
}

/// Returns the text with single spaces in place of all white space, because lines are wrapped differently.
fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn every_command_has_its_section_written_from_the_table() {
    let text = ["docs/commands.md", "docs/cuckoo-commands.md"].map(read).join("\n");
    let sections: Vec<&str> = text.split("\n### ").skip(1).collect();
    let section_of = |name: &str| {
        let heading = format!("{name}\n");
        sections.iter().find(|section| section.starts_with(&heading)).map(|section| format!("### {section}"))
    };
    for command in COMMANDS {
        let spec = command.spec();
        let section =
            section_of(&spec.name.to_uppercase()).unwrap_or_else(|| panic!("no section: {}", spec.name));
        let (section, head) = (unwrapped(&section), unwrapped(&section_head(spec)));
        assert!(section.starts_with(&head), "the reference lacks, white space aside:\n{head}");
        let own = if spec.is_of_cuckoo() { "cuckoo" } else { "bloom" };
        let own = if spec.has_own_category { format!(" {own}") } else { String::new() };
        let facts = format!(
            "Complexity: {}. Since {}. ACL categories: `{}{own}`.",
            spec.complexity, spec.since, spec.categories
        );
        assert!(section.contains(&facts), "{}: {facts}", spec.name);
        for part in ["**Return values.**", "**Errors.**", "**Replication.**"] {
            assert!(section.contains(part), "{}: {part}", spec.name);
        }
    }
    // The table at the head of the page has them all, in this order.
    let head = read("docs/commands.md");
    let row = |spec: &CommandSpec| {
        let (name, page) =
            (spec.name.to_uppercase(), if spec.is_of_cuckoo() { "cuckoo-commands.md" } else { "" });
        let anchor = spec.name.replace('.', "");
        format!("| [{name}]({page}#{anchor}) | {} | {} |\n", spec.summary, spec.complexity)
    };
    let rows: String = COMMANDS.iter().map(|command| row(command.spec())).collect();
    assert!(head.contains(&rows), "docs/commands.md lacks the table:\n{rows}");
    let count = ["\n### BF.", "\n### CF."].map(|heading| text.matches(heading).count()).iter().sum::<usize>();
    assert_eq!(count, COMMANDS.len(), "a section without a command");
}

#[test]
fn every_command_has_one_bound_of_its_cost() {
    let page = read("docs/reliability.md");
    let (_, cost) = page.split_once("\n## Cost\n").unwrap();
    let (cost, _) = cost.split_once("\n## ").unwrap();
    let rows = cost.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" | "));
    let bounded: Vec<&str> = rows.flat_map(|(commands, _)| commands.split(", ")).collect();
    for command in COMMANDS {
        let name = command.spec().name.to_uppercase();
        assert_eq!(bounded.iter().filter(|bounded| **bounded == name).count(), 1, "{name}");
    }
}

/// Returns the start of a command's section.
fn section_head(spec: &CommandSpec) -> String {
    let name = spec.name.to_uppercase();
    let syntax: Vec<_> = spec.syntax.iter().map(argument_text).collect();
    format!("### {name} ```text {name} {} ``` {}.", syntax.join(" "), spec.summary)
}

/// Returns the syntax of an argument, as redis.io writes it.
fn argument_text(argument: &ArgumentSpec) -> String {
    let value = match &argument.kind {
        ArgumentKind::PureToken => String::new(),
        ArgumentKind::OneOf(choices) => choices.iter().map(argument_text).collect::<Vec<_>>().join(" | "),
        _ => argument.name.to_owned(),
    };
    let text = match argument.token {
        Some(token) if value.is_empty() => token.to_owned(),
        Some(token) => format!("{token} {value}"),
        None => value,
    };
    match argument.presence {
        Presence::Required => text,
        Presence::Optional => format!("[{text}]"),
        Presence::Repeated => format!("{text} [{text} ...]"),
    }
}

/// The files with the error texts of commands.
const ERROR_TEXTS: [&str; 5] = [
    "src/command/error.rs",
    "src/filter/encoding.rs",
    "src/filter/hash/scheme.rs",
    "src/format/client/guava.rs",
    "src/format/client/bitmap.rs",
];

/// Returns whether the parts occur in the text in this order.
fn has_in_order(mut text: &str, parts: &[&str]) -> bool {
    parts.iter().all(|part| text.split_once(part).map(|(_, rest)| text = rest).is_some())
}

/// Returns the constant parts of an error text of the code, whose values are in braces.
fn constant_parts(text: &str) -> Vec<&str> {
    let parts = text.split('{').flat_map(|part| part.split('}').next_back());
    parts.filter(|part| !part.is_empty()).collect()
}

/// Returns whether a documented error is `text` of the code, with values or `...` in place of the braces, or its
/// beginning followed by `...`.
fn is_documented_as(text: &str, documented: &str) -> bool {
    let [text, documented] = [text, documented].map(|error| error.strip_prefix("ERR ").unwrap_or(error));
    if let Some(beginning) = documented.strip_suffix("...") {
        let parts: Vec<&str> = beginning.split("...").collect();
        if has_in_order(text, &parts) {
            return true;
        }
    }
    let parts = constant_parts(text);
    parts.iter().map(|part| part.len()).sum::<usize>() > documented.len() / 3
        && (text.starts_with('{') || documented.starts_with(parts[0]))
        && (text.ends_with('}') || documented.ends_with(parts[parts.len() - 1]))
        && has_in_order(documented, &parts)
}

#[test]
fn every_error_in_the_reference_is_a_text_of_the_code() {
    let code = unwrapped(&ERROR_TEXTS.map(read).join("\n").replace("\\\n", " "));
    let texts: Vec<&str> = code.split('"').collect();
    let mut checked = 0;
    for page in ["docs/commands.md", "docs/cuckoo-commands.md", "docs/command-details.md"].map(read) {
        let tables = page.split("| Error | Cause |\n").skip(1);
        for row in tables.flat_map(|table| table.lines().take_while(|line| line.starts_with('|')).skip(1)) {
            for error in row.split('|').nth(1).unwrap().split('`').skip(1).step_by(2) {
                let is_known = texts.iter().any(|text| is_documented_as(text, error));
                assert!(is_known, "not an error of the code: {error}");
                checked += 1;
            }
        }
    }
    assert!(checked > 60, "only {checked} errors found");
}

/// Returns the anchor that GitHub makes of a heading.
fn anchor(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

fn anchors(text: &str) -> Vec<String> {
    let headings = text
        .lines()
        .filter_map(|line| line.trim_start_matches('#').strip_prefix(' ').filter(|_| line.starts_with('#')));
    headings.map(anchor).collect()
}

/// Returns the pages for readers: README.md and other pages at the top, and everything in docs/ and findings/.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(ROOT);
    let folders = ["", "docs", "docs/decisions", "findings"].map(|folder| root.join(folder));
    let entries = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let pages = entries.map(|entry| entry.unwrap().path());
    pages.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
}

#[test]
fn every_link_has_a_target() {
    let (mut checked, mut broken) = (0, Vec::<String>::new());
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        let links = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        for link in links.filter(|link| {
            !link.contains("::") && !link.contains("://") && !link.contains(char::is_whitespace)
        }) {
            let (path, heading) =
                link.split_once('#').map_or((link, None), |(path, heading)| (path, Some(heading)));
            let target = if path.is_empty() { page.clone() } else { page.parent().unwrap().join(path) };
            let leads = target.exists()
                && heading.is_none_or(|heading| {
                    let text = std::fs::read_to_string(&target).unwrap_or_default();
                    anchors(&text).iter().any(|anchor| anchor == heading)
                        || text.contains(&format!("id=\"{heading}\""))
                });
            if !leads {
                broken.push(format!("{}: {link}", page.display()));
            }
            checked += 1;
        }
    }
    assert!(broken.is_empty(), "links that lead nowhere:\n{}", broken.join("\n"));
    assert!(checked > 100, "only {checked} links found");
}

#[test]
fn every_finding_is_executable_listed_and_complete() {
    use std::os::unix::fs::PermissionsExt;
    let page = read("findings/README.md");
    let folder = Path::new(ROOT).join("findings");
    let mut found = 0;
    for path in std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let name = path.file_name().unwrap().to_str().unwrap();
        if !name.ends_with(".sh") || name == "lib.sh" {
            continue;
        }
        assert!(path.metadata().unwrap().permissions().mode() & 0o111 != 0, "{name} has no run bit");
        assert!(page.contains(&format!("({name})")), "findings/README.md does not list {name}");
        let script = read(&format!("findings/{name}"));
        for part in ["# A good engineer would guess:", "# Who is hurt:", "\nholds <<'SEEN'\n"] {
            assert!(script.contains(part), "{name} lacks {part}");
        }
        assert!(!script.contains("everbloom") && !script.contains("://deb"), "{name}");
        found += 1;
    }
    assert_eq!(page.matches(".sh) |").count(), found, "a finding without a script");
}

#[test]
fn the_first_screen_of_the_readme_links_the_licence_and_the_security_contact() {
    let readme = read("README.md");
    let screen: Vec<&str> = readme.lines().take(25).collect();
    for link in ["(LICENSE)", "(SECURITY.md)"] {
        assert!(screen.iter().any(|line| line.contains(link)), "{link}");
    }
}

#[test]
fn the_readme_names_the_target_that_builds_the_tool() {
    let (readme, makefile) = (read("README.md"), read("Makefile"));
    let (_, section) = readme.split_once("\n## Sixty seconds\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let (before, _) = section.split_once("    everbloom load ").unwrap();
    assert!(unwrapped(before).contains("`make tool` builds it as `target/release/everbloom`"), "{before}");
    assert!(
        makefile.contains("\ntool: ") && makefile.contains("TOOL := $(CARGO_TARGET_DIR)/release/everbloom\n")
    );
}

#[test]
fn files_named_in_the_architecture_page_exist() {
    let root = Path::new(ROOT);
    let text = std::fs::read_to_string(root.join("docs/architecture.md")).unwrap();
    let named = text.split('`').skip(1).step_by(2).filter(|name| name.contains('/') && !name.contains(' '));
    let (mut checked, mut missing) = (0, Vec::new());
    for name in named {
        let exists = |path: PathBuf| path.exists() || path.with_extension("rs").exists();
        if !exists(root.join(name)) && !exists(root.join("src").join(name)) {
            missing.push(name);
        }
        checked += 1;
    }
    assert!(missing.is_empty(), "docs/architecture.md names what is not there: {missing:?}");
    assert!(checked > 40, "only {checked} names found");
}

#[test]
fn the_table_of_sizes_is_right() {
    let page = unwrapped(&read("docs/sizing.md"));
    let row = |items: &str| {
        let row = page.split(&format!("| {items} | ")).nth(1).unwrap_or_else(|| panic!("no row {items}"));
        row.split(" | ").take(3).map(str::to_owned).collect::<Vec<_>>()
    };
    for (name, items) in [
        ("10 thousand", 10_000),
        ("100 thousand", 100_000),
        ("1 million", 1_000_000),
        ("10 million", 10_000_000),
        ("100 million", 100_000_000),
    ] {
        let sizes = [0.01, 0.001, 0.0001].map(|error_rate| {
            let options = Options { error_rate, capacity_items: items, ..Options::default() };
            // The size is that of `SIZE` of BF.INFO. Memory that is not written to is not taken.
            let bytes = BloomFilter::new(options).unwrap().size_bytes() as f64;
            match bytes {
                ..1e5 => format!("{:.1} kB", bytes / 1e3),
                ..1e6 => format!("{:.0} kB", bytes / 1e3),
                ..1e8 => format!("{:.1} MB", bytes / 1e6),
                _ => format!("{:.0} MB", bytes / 1e6),
            }
        });
        assert_eq!(row(name), sizes, "{name}");
    }
}

/// The tests in tests/server run these examples, so the pages must print them unchanged.
#[test]
fn pages_list_the_examples_that_are_tested() {
    for (page, script) in [
        ("clients.md", "python/use_redis_py.py"),
        ("clients.md", "python/use_valkey_glide.py"),
        ("clients.md", "node/use_node_redis.js"),
        ("clients.md", "node/use_ioredis.js"),
        ("clients.md", "rust/use_redis_rs.rs"),
        ("deleting-items.md", "python/delete_items.py"),
        ("deleting-items.md", "node/delete_items.js"),
        ("bulk-loading.md", "python/bulk.py"),
        ("bulk-loading.md", "node/bulk.js"),
        ("clusters.md", "python/partitions.py"),
        ("clusters.md", "node/partitions.js"),
        ("near-copies.md", "rust/near.rs"),
    ] {
        let (text, listing) = (read(&format!("docs/{page}")), read(&format!("examples/{script}")));
        assert!(text.contains(&listing), "docs/{page} lists another examples/{script}");
    }
}

/// The index of the examples has every program.
#[test]
fn the_index_of_the_examples_lists_every_program() {
    let index = read("examples/README.md");
    for folder in ["python", "node", "rust"] {
        let path = std::path::Path::new(ROOT).join("examples").join(folder);
        for entry in std::fs::read_dir(path).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            if [".py", ".js", ".rs"].iter().any(|end| name.ends_with(end)) {
                assert!(index.contains(&format!("]({folder}/{name})")), "examples/README.md lacks {name}");
            }
        }
    }
}

/// The code before a text that a client, the log or the tool shows, without white space and `format!(`.
const INTRODUCTIONS: &[&str] = &[
    "#[error(",
    "Failure::new(",
    "Failure::usage(",
    "Failure::partly(",
    "Failure::of(shown(key),",
    "Failure::of(shown(&self.key),",
    "Failure::of(path.display(),",
    "Failure::of(next,",
    "Self::Broken(",
    "CallError::Refused(",
    "Self::partly(",
    "warning(context,",
    "warning(context,&",
    "null_mut(),",
    "null_mut(),&",
    "Topic::new(",
    "NAME_TAKEN:&str=",
    "or_else(||",
    "warnings.push(",
    "BadValue::NotANumber=>",
    "BadValue::OutOfRange=>",
    "bytes=>",
    "command:&str){lettext=",
    "letmessage=",
    "wrong=||",
    "at(number,",
    "at(line,",
    "ReadError::Invalid(",
    // Of the Python package.
    "PyTypeError::new_err(",
    "PyValueError::new_err(",
    "raiseTypeError(",
    "raiseTypeError(f",
    "raiseValueError(",
    "raiseClosedError(",
    "raiseRefusedError(f",
];

/// Returns the string literals of a source file, each with the code before it, without white space and comments.
fn literals(source: &str) -> Vec<(String, String)> {
    let (mut found, mut code) = (Vec::new(), String::new());
    let mut characters = source.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '/' if characters.peek() == Some(&'/') => drop(characters.find(|next| *next == '\n')),
            // The quote is a character literal: `'"'`.
            '"' if code.ends_with('\'') && characters.peek() == Some(&'\'') => code.push('"'),
            '"' => {
                let mut text = String::new();
                while let Some(next) = characters.next().filter(|next| *next != '"') {
                    text.extend(if next == '\\' { characters.next() } else { Some(next) });
                }
                found.push((code.clone(), text));
                code.clear();
            }
            _ if character.is_whitespace() => {}
            _ => code.push(character),
        }
    }
    found
}

/// Returns the longest part of a text between its values, with single spaces.
fn fixed_part(text: &str) -> String {
    let text = text.replace("{{", "").replace("}}", "");
    let parts = text.split(['{', '}']).step_by(2);
    searchable(parts.max_by_key(|part| part.len()).unwrap_or_default())
}

fn searchable(text: &str) -> String {
    let words = text.replace('`', "");
    let words = words.trim_matches(|c: char| c.is_whitespace() || "':;,.()[]".contains(c));
    words.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns the error texts of a file: every literal of the file of command errors, and the literals after an
/// introduction in other files.
fn error_texts(file: &Path) -> Vec<String> {
    let source = std::fs::read_to_string(file).unwrap();
    let is_file_of_errors = file.ends_with("command/error.rs");
    let shown = literals(&source).into_iter().filter(|(code, _)| {
        let code = code.strip_suffix("format!(").unwrap_or(code);
        is_file_of_errors || INTRODUCTIONS.iter().any(|introduction| code.ends_with(introduction))
    });
    // A single word is a name, or a text whose rest comes from another literal.
    shown.map(|(_, text)| fixed_part(&text)).filter(|text| text.contains(' ')).collect()
}

fn texts_below(folder: &Path, texts: &mut Vec<String>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            texts_below(&path, texts);
        } else if path.extension().is_some_and(|extension| extension == "rs" || extension == "py") {
            texts.extend(error_texts(&path));
        }
    }
}

#[test]
fn every_error_text_is_explained() {
    let page = searchable(&read("docs/troubleshooting.md"));
    let mut texts = Vec::new();
    texts_below(&Path::new(ROOT).join("src"), &mut texts);
    assert!(texts.len() > 100, "only {} texts found", texts.len());
    let texts_of_programs = texts.len();
    for folder in ["everbloom", "src"] {
        texts_below(&Path::new(ROOT).join("clients/python").join(folder), &mut texts);
    }
    assert!(
        texts.len() >= texts_of_programs + 12,
        "only {} texts of Python",
        texts.len() - texts_of_programs
    );
    texts.retain(|text| !page.contains(text));
    assert!(texts.is_empty(), "docs/troubleshooting.md lacks:\n{}", texts.join("\n"));
}
