//! The words of the options that `options` reads.

/// Makes an enum of words, with the text of each.
macro_rules! option_words {
    ($($word:ident $text:literal,)*) => {
        /// The word of an option.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum OptionWord {
            $(#[doc = concat!("`", $text, "`.")] $word,)*
        }

        impl OptionWord {
            /// Returns the text of the word.
            #[must_use]
            pub const fn text(self) -> &'static str {
                match self {
                    $(Self::$word => $text,)*
                }
            }
        }
    };
}

option_words! {
    Capacity "CAPACITY",
    Error "ERROR",
    Expansion "EXPANSION",
    NonScaling "NONSCALING",
    Saturate "SATURATE",
    Keyed "KEYED",
    Key "KEY",
    Format "FORMAT",
    Counting "COUNTING",
    Window "WINDOW",
    PWindow "PWINDOW",
    NoRefresh "NOREFRESH",
    Steps "STEPS",
    At "AT",
    IfAbsent "IFABSENT",
    Life "LIFE",
    PLife "PLIFE",
    LifeAt "LIFEAT",
    PLifeAt "PLIFEAT",
    Within "WITHIN",
    PWithin "PWITHIN",
    Seed "SEED",
    Tightening "TIGHTENING",
    Unreserved "UNRESERVED",
    ValidateScaleTo "VALIDATESCALETO",
    Ex "EX",
    Px "PX",
    ExAt "EXAT",
    PxAt "PXAT",
    NoCreate "NOCREATE",
    IfNotExists "IFNOTEXISTS",
    BucketSize "BUCKETSIZE",
    MaxIterations "MAXITERATIONS",
    Scheme "SCHEME",
    Bits "BITS",
    Hashes "HASHES",
    Shift "SHIFT",
    Order "ORDER",
    Encoding "ENCODING",
    Replace "REPLACE",
}
