//! What a node of a cluster says that has not done a command because of where its key is.

/// Where the command is to go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Redirection {
    /// The slot belongs to the node from now on.
    Moved(u64, (String, u16)),
    /// The slot is on its way, and this key is at the other node already.
    Ask((String, u16)),
    /// To the same node, later.
    Wait,
}

impl Redirection {
    /// Of the words of an error; nothing of other errors.
    pub(super) fn of(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        match words.next()? {
            "TRYAGAIN" | "CLUSTERDOWN" => Some(Self::Wait),
            word @ ("MOVED" | "ASK") => {
                let slot = words.next()?.parse().ok()?;
                let (host, port) = words.next()?.rsplit_once(':')?;
                let place = (host.to_owned(), port.parse().ok()?);
                Some(if word == "MOVED" { Self::Moved(slot, place) } else { Self::Ask(place) })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Redirection;

    #[test]
    fn words_of_nodes_are_understood() {
        let place = |host: &str| (host.to_owned(), 6381);
        for (text, redirection) in [
            ("MOVED 3999 127.0.0.1:6381", Some(Redirection::Moved(3999, place("127.0.0.1")))),
            ("MOVED 3999 ::1:6381", Some(Redirection::Moved(3999, place("::1")))),
            ("ASK 7 :6381", Some(Redirection::Ask(place("")))),
            ("TRYAGAIN Multiple keys request during rehashing of slot", Some(Redirection::Wait)),
            ("CLUSTERDOWN The cluster is down", Some(Redirection::Wait)),
            ("MOVED", None),
            ("MOVED 1 nowhere", None),
            ("ERR not found", None),
            ("", None),
        ] {
            assert_eq!(Redirection::of(text), redirection, "{text}");
        }
    }
}
