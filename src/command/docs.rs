//! The head of each command's section in docs/commands.md, written from the table.

use super::table::{ArgumentKind, ArgumentSpec, CommandSpec, Presence};

/// The section head of a command: its syntax, then its facts. docs/commands.md holds it to the letter.
#[must_use]
pub fn section_head(spec: &CommandSpec) -> String {
    let name = spec.name.to_uppercase();
    let syntax: Vec<_> = std::iter::once(name.clone()).chain(spec.syntax.iter().map(argument_text)).collect();
    format!(
        "## {name}\n\n```text\n{}\n```\n\n{}.\n\nSince {}. Complexity: {}. ACL categories: `{} bloom`.\n",
        syntax.join(" "),
        spec.summary,
        spec.since,
        spec.complexity,
        spec.categories,
    )
}

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::Command;

    #[test]
    fn syntax_is_spelt_as_on_redis_io() {
        let head = section_head(Command::Insert.spec());
        for expected in [
            "\nBF.INSERT key [CAPACITY capacity] [ERROR error] ",
            " [NOCREATE] [NONSCALING] ",
            " [FORMAT everbloom | redisbloom | valkey-bloom] ",
            " ITEMS item [item ...]\n",
        ] {
            assert!(head.contains(expected), "{head}");
        }
        let head = section_head(Command::Info.spec());
        assert!(head.contains("BF.INFO key [CAPACITY | SIZE | FILTERS | ITEMS | EXPANSION]\n"), "{head}");
    }
}
