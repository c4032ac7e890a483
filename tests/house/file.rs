//! What one file declares, imports and names.

use std::collections::BTreeSet;

/// A module as the path to it, `bloom::everbloom::hash`; the root is empty.
pub(crate) type Module = Vec<String>;

/// A file of code.
#[derive(Clone, Default)]
pub(crate) struct File {
    pub(crate) lines: usize,
    /// Whether it is a `mod.rs` or a root: its names may be re-exports.
    pub(crate) is_door: bool,
    /// Modules that it declares.
    pub(crate) children: BTreeSet<String>,
    /// Its imports, by the name that each gives: `*` for all names of a module.
    pub(crate) imports: Vec<(String, Module)>,
    /// All paths in its code, the imports included.
    pub(crate) paths: Vec<Module>,
}

impl File {
    pub(crate) fn of(text: &str, is_door: bool) -> Self {
        let mut file = Self { lines: text.lines().count(), is_door, ..Self::default() };
        let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or(text);
        let tokens = tokens(code);
        let mut rest = tokens.as_slice();
        while let [token, more @ ..] = rest {
            match (token.as_str(), more) {
                ("mod", [name, end, ..]) if end == ";" => {
                    file.children.insert(name.clone());
                    rest = more;
                }
                ("use", _) => rest = file.import(&Vec::new(), more),
                ("pub", [next, more @ ..]) if next == "use" => {
                    let paths = file.paths.len();
                    rest = file.import(&Vec::new(), more);
                    if is_door {
                        file.paths.truncate(paths);
                    }
                }
                // How far a name is visible, which is no use.
                ("(", [next, more @ ..]) if next == "in" => {
                    rest = &more[more.iter().position(|end| end == ")").unwrap()..];
                }
                _ => rest = file.path(rest),
            }
        }
        file
    }

    /// One tree of a `use`; answers what follows it.
    fn import<'t>(&mut self, before: &Module, mut rest: &'t [String]) -> &'t [String] {
        let mut path = before.clone();
        while let [token, more @ ..] = rest {
            rest = more;
            match token.as_str() {
                "::" => {}
                "{" => {
                    while let [token, more @ ..] = rest {
                        match token.as_str() {
                            "}" => return more,
                            "," => rest = more,
                            _ => rest = self.import(&path, rest),
                        }
                    }
                }
                "as" => {
                    let name = rest[0].clone();
                    self.imported(name, path);
                    return &rest[1..];
                }
                "self" if !path.is_empty() => {}
                _ => path.push(token.clone()),
            }
            if let [next, ..] = rest
                && [",", "}", ";"].contains(&next.as_str())
            {
                let name = path[path.len() - 1].clone();
                self.imported(name, path);
                break;
            }
        }
        rest
    }

    fn imported(&mut self, name: String, path: Module) {
        self.paths.push(path.clone());
        self.imports.push((name, path));
    }

    /// A path, or a single token; answers what follows it.
    fn path<'t>(&mut self, mut rest: &'t [String]) -> &'t [String] {
        let mut path = vec![rest[0].clone()];
        rest = &rest[1..];
        while let [colons, name, more @ ..] = rest
            && colons == "::"
            && name.starts_with(|first: char| first.is_alphabetic() || first == '_')
        {
            path.push(name.clone());
            rest = more;
        }
        if path.len() > 1 {
            self.paths.push(path);
        }
        rest
    }
}

/// Names, `::` and single marks; no comments, strings or numbers.
fn tokens(code: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let is_in_name = |next: char| next.is_alphanumeric() || next == '_';
        let length = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if first == '"' {
            string_bytes(rest)
        } else if rest.starts_with("'\"'") || rest.starts_with("b'\"'") {
            rest[2..].find('\'').unwrap() + 3
        } else if rest.starts_with("::") {
            tokens.push("::".to_owned());
            2
        } else if is_in_name(first) {
            let length = rest.find(|next| !is_in_name(next)).unwrap_or(rest.len());
            tokens.push(rest[..length].to_owned());
            length
        } else {
            if !first.is_whitespace() {
                tokens.push(first.to_string());
            }
            first.len_utf8()
        };
        rest = &rest[length..];
    }
    tokens
}

/// Bytes of the string that a text begins with, its quotes included.
fn string_bytes(text: &str) -> usize {
    let mut is_escaped = false;
    for (index, next) in text.char_indices().skip(1) {
        match next {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            '"' => return index + 1,
            _ => {}
        }
    }
    text.len()
}
