//! docs/troubleshooting.md contains every error text of the code.

use std::fs;
use std::path::Path;

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
    "Throttle::new(",
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
];

/// Returns the string literals of a source file, each with the code before it, without white space and comments.
fn literals(source: &str) -> Vec<(String, String)> {
    let (mut found, mut code) = (Vec::new(), String::new());
    let mut characters = source.chars().peekable();
    while let Some(character) = characters.next() {
        match character {
            '/' if characters.peek() == Some(&'/') => drop(characters.find(|next| *next == '\n')),
            // The character `'"'`.
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
    let source = fs::read_to_string(file).unwrap();
    let is_file_of_errors = file.ends_with("command/error.rs");
    let shown = literals(&source).into_iter().filter(|(code, _)| {
        let code = code.strip_suffix("format!(").unwrap_or(code);
        is_file_of_errors || INTRODUCTIONS.iter().any(|introduction| code.ends_with(introduction))
    });
    // A single word is a name, or a text whose rest comes from another literal.
    shown.map(|(_, text)| fixed_part(&text)).filter(|text| text.contains(' ')).collect()
}

fn texts_below(folder: &Path, texts: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            texts_below(&path, texts);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            texts.extend(error_texts(&path));
        }
    }
}

#[test]
fn every_error_text_is_explained() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = searchable(&fs::read_to_string(root.join("docs/troubleshooting.md")).unwrap());
    let mut texts = Vec::new();
    texts_below(&root.join("src"), &mut texts);
    assert!(texts.len() > 100, "only {} texts found", texts.len());
    texts.retain(|text| !page.contains(text));
    assert!(texts.is_empty(), "docs/troubleshooting.md lacks:\n{}", texts.join("\n"));
}
