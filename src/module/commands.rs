//! Registers every command of the table: handler, flags, ACL categories, and the documentation for COMMAND DOCS.

use std::ffi::CString;
use std::{mem, ptr};

use redis_module::raw::{self, RedisModuleCommandArg, RedisModuleCommandKeySpec};

use super::api::{Context, succeeded};
use super::dispatch::HANDLERS;
use super::log;
use everbloom_command::COMMANDS;
use everbloom_command::table::{ArgumentKind, ArgumentSpec, CommandSpec, KeyAccess, Presence};

/// ACL category of BF.*, on servers where modules can have one.
const CATEGORY: &str = "bloom";
/// ACL category of CF.*.
const CUCKOO_CATEGORY: &str = "cuckoo";
/// Position of the key among the arguments, with the command's name at 0.
const KEY_POSITION: i32 = 1;

/// Registers every command. Returns false, with a line in the log, if the server refuses one.
///
/// # Safety
/// `context` must be that of the running `RedisModule_OnLoad`.
pub(super) unsafe fn register(context: Context) -> bool {
    // SAFETY: the context is OnLoad's by the caller's contract.
    let add = |category: &&str| unsafe { add_category(context, category) };
    let has_category = [CATEGORY, CUCKOO_CATEGORY].iter().all(add);
    COMMANDS.iter().zip(HANDLERS).all(|(command, handler)| {
        let spec = command.spec();
        // SAFETY: the context is OnLoad's by the caller's contract. The handler is a function of `dispatch`, so it
        // lives as long as the module.
        let registered = unsafe { register_one(context, spec, handler, has_category) };
        if !registered {
            log::warning(context, &format!("the server refused the command {}", spec.name));
        }
        registered
    })
}

/// Adds an ACL category. Returns false if modules cannot have one on this server.
///
/// # Safety
/// As [`register`].
unsafe fn add_category(context: Context, category: &str) -> bool {
    let Some(add_category) = api!(RedisModule_AddACLCategory) else { return false };
    let name = log::c_text(category);
    // SAFETY: the context is OnLoad's by the caller's contract. The name is copied.
    succeeded(unsafe { add_category(context, name.as_ptr()) })
}

/// Registers a command with its description and categories. Returns false if the server refuses one of them.
///
/// # Safety
/// As [`register`]; `handler` must be a command handler that lives as long as the module.
unsafe fn register_one(
    context: Context,
    spec: &'static CommandSpec,
    handler: raw::RedisModuleCmdFunc,
    has_category: bool,
) -> bool {
    let (Some(create), Some(get)) = (api!(RedisModule_CreateCommand), api!(RedisModule_GetCommand)) else {
        return false;
    };
    let name = log::c_text(spec.name);
    let flags = log::c_text(spec.flags);
    // SAFETY: context and handler are valid by the caller's contract. The server copies name and flags.
    let status = unsafe {
        create(context, name.as_ptr(), handler, flags.as_ptr(), KEY_POSITION, KEY_POSITION, KEY_POSITION)
    };
    if !succeeded(status) {
        return false;
    }
    // SAFETY: the context is OnLoad's by the caller's contract.
    let command = unsafe { get(context, name.as_ptr()) };
    if command.is_null() {
        return false;
    }
    // SAFETY: the command was just made.
    let described = unsafe { describe(command, spec) };
    // SAFETY: the command was just made.
    described && unsafe { set_categories(command, spec, has_category) }
}

/// Sets the ACL categories of a command, if modules can set them on this server. Returns false if the server refuses.
///
/// # Safety
/// `command` must be a command of this module, while it is being loaded.
unsafe fn set_categories(
    command: *mut raw::RedisModuleCommand,
    spec: &CommandSpec,
    has_category: bool,
) -> bool {
    let Some(set_categories) = api!(RedisModule_SetCommandACLCategories) else { return true };
    let mut categories = vec![spec.categories];
    let category = if spec.is_of_cuckoo() { CUCKOO_CATEGORY } else { CATEGORY };
    categories.extend((has_category && spec.has_own_category).then_some(category));
    let categories = log::c_text(&categories.join(" "));
    // SAFETY: the command is valid by the caller's contract. The server reads the text before it returns.
    succeeded(unsafe { set_categories(command, categories.as_ptr()) })
}

/// Sets the description of a command for COMMAND DOCS. Returns false if the server refuses it.
///
/// # Safety
/// `command` must be a command of this module, while it is being loaded.
unsafe fn describe(command: *mut raw::RedisModuleCommand, spec: &CommandSpec) -> bool {
    let Some(set_info) = api!(RedisModule_SetCommandInfo) else { return false };
    let mut texts = Texts::default();
    let mut key_specs = [key_spec(spec.key_access), no_key_spec()];
    let info = raw::RedisModuleCommandInfo {
        version: &raw const INFO_VERSION,
        summary: texts.add(spec.summary),
        complexity: texts.add(spec.complexity),
        since: texts.add(spec.since),
        history: ptr::null_mut(),
        tips: spec.tips.map_or(ptr::null(), |tips| texts.add(tips)),
        arity: spec.arity(),
        key_specs: key_specs.as_mut_ptr(),
        args: texts.arguments(spec.syntax),
    };
    // SAFETY: the command is valid by the caller's contract. The server copies everything before it returns, and
    // `texts`, `key_specs` and `info` live until then. Both lists end with an empty element, as the API requires.
    succeeded(unsafe { set_info(command, &raw const info) })
}

/// Sizes of the structs, from which the server derives the version of the API.
static INFO_VERSION: raw::RedisModuleCommandInfoVersion = raw::RedisModuleCommandInfoVersion {
    version: 1,
    sizeof_historyentry: size_of::<raw::RedisModuleCommandHistoryEntry>(),
    sizeof_keyspec: size_of::<RedisModuleCommandKeySpec>(),
    sizeof_arg: size_of::<RedisModuleCommandArg>(),
};

fn key_spec(access: KeyAccess) -> RedisModuleCommandKeySpec {
    let flags = match access {
        KeyAccess::ReadOnly => raw::REDISMODULE_CMD_KEY_RO | raw::REDISMODULE_CMD_KEY_ACCESS,
        KeyAccess::ReadWrite => {
            raw::REDISMODULE_CMD_KEY_RW | raw::REDISMODULE_CMD_KEY_ACCESS | raw::REDISMODULE_CMD_KEY_UPDATE
        }
    };
    RedisModuleCommandKeySpec {
        flags: flags.into(),
        begin_search_type: raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_INDEX,
        bs: raw::RedisModuleCommandKeySpec__bindgen_ty_1 {
            index: raw::RedisModuleCommandKeySpec__bindgen_ty_1__bindgen_ty_1 { pos: KEY_POSITION },
        },
        find_keys_type: raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_RANGE,
        fk: raw::RedisModuleCommandKeySpec__bindgen_ty_2 {
            range: raw::RedisModuleCommandKeySpec__bindgen_ty_2__bindgen_ty_1 {
                lastkey: 0,
                keystep: 1,
                limit: 0,
            },
        },
        ..no_key_spec()
    }
}

/// Returns the element that ends a list of key specifications.
fn no_key_spec() -> RedisModuleCommandKeySpec {
    // SAFETY: this is a C struct of numbers, pointers and unions of numbers, for all of which 0 is a valid value.
    unsafe { mem::zeroed() }
}

/// Keeps the strings and lists of a description alive, at fixed addresses, until the server has copied them.
#[derive(Default)]
struct Texts {
    strings: Vec<CString>,
    lists: Vec<Box<[RedisModuleCommandArg]>>,
}

impl Texts {
    /// Adds a string. Returns its address.
    fn add(&mut self, text: &str) -> *const std::ffi::c_char {
        let text = log::c_text(text);
        let start = text.as_ptr();
        self.strings.push(text);
        start
    }

    /// Adds the arguments of a command in the form of the API, and an empty argument after them. Returns the address of
    /// this list.
    fn arguments(&mut self, specs: &[ArgumentSpec]) -> *mut RedisModuleCommandArg {
        let list: Vec<_> = specs.iter().map(|spec| self.argument(spec)).chain([no_argument()]).collect();
        let mut list = list.into_boxed_slice();
        let start = list.as_mut_ptr();
        self.lists.push(list);
        start
    }

    fn argument(&mut self, spec: &ArgumentSpec) -> RedisModuleCommandArg {
        let flags = match spec.presence {
            Presence::Required => raw::REDISMODULE_CMD_ARG_NONE,
            Presence::Optional => raw::REDISMODULE_CMD_ARG_OPTIONAL,
            Presence::Repeated => raw::REDISMODULE_CMD_ARG_MULTIPLE,
        };
        let (type_, key_spec_index) = match spec.kind {
            ArgumentKind::Key => (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_KEY, 0),
            ArgumentKind::String => (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_STRING, -1),
            ArgumentKind::Integer => (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_INTEGER, -1),
            ArgumentKind::Double => (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_DOUBLE, -1),
            ArgumentKind::PureToken => (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_PURE_TOKEN, -1),
            ArgumentKind::OneOf(_) => (raw::RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_ONEOF, -1),
        };
        let subargs = match spec.kind {
            ArgumentKind::OneOf(choices) => self.arguments(choices),
            _ => ptr::null_mut(),
        };
        RedisModuleCommandArg {
            name: self.add(spec.name),
            type_,
            key_spec_index,
            token: spec.token.map_or(ptr::null(), |token| self.add(token)),
            flags: flags.cast_signed(),
            subargs,
            ..no_argument()
        }
    }
}

/// Returns the element that ends a list of arguments.
fn no_argument() -> RedisModuleCommandArg {
    // SAFETY: this is a C struct of numbers and pointers, for all of which 0 is a valid value.
    unsafe { mem::zeroed() }
}
