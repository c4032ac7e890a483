//! What a filter of any kind is to be made of.

use super::counting::Counting;
use super::everbloom::Everbloom;
use super::keyed::Keyed;
use super::redisbloom::RedisBloom;
use super::valkeybloom::ValkeyBloom;
use super::window::Window;

/// What a filter is to be made of.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Blueprint {
    /// A filter of our own.
    Everbloom(Everbloom),
    /// A filter that items can be deleted from.
    Counting(Counting),
    /// A filter of RedisBloom's kind.
    RedisBloom(RedisBloom),
    /// A filter of valkey-bloom's kind.
    ValkeyBloom(ValkeyBloom),
    /// A filter of our own whose hash is keyed.
    Keyed(Keyed),
    /// A filter that forgets.
    Window(Window),
}
