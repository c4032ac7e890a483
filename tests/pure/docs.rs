//! docs/commands.md says what the table of commands says.

use std::path::{Path, PathBuf};

use everbloom::command::COMMANDS;

#[test]
fn every_command_has_its_section_written_from_the_table() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/commands.md");
    let text = std::fs::read_to_string(path).unwrap();
    for command in COMMANDS {
        let head = command.spec().section_head();
        assert!(text.contains(&head), "docs/commands.md lacks, to the letter:\n{head}");
    }
    assert_eq!(text.matches("\n## BF.").count(), COMMANDS.len(), "a section without a command");
}

/// What GitHub makes of a heading for links to it.
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

/// The pages that people read: README.md and other pages at the top, docs/ with what is below.
fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folders = [root.to_path_buf(), root.join("docs"), root.join("docs/decisions")];
    let entries = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
    let pages = entries.map(|entry| entry.unwrap().path());
    pages.filter(|path| path.extension().is_some_and(|extension| extension == "md")).collect()
}

#[test]
fn every_link_within_the_documentation_leads_somewhere() {
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
fn the_first_page_is_short() {
    let text = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/README.md")).unwrap();
    let lines = text.lines().count();
    assert!(lines <= 150, "README.md has {lines} lines: what is longer belongs to docs/");
}

#[test]
fn the_files_that_the_map_names_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
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
