//! Mistakes in links, and at their far ends.
use super::Mistake;
use super::Severity::{Error, Warning};

pub const MISTAKES: &[Mistake] = &[
    (
        "&link = \"sky\"",
        Error,
        "\"sky\"",
        "there is no link",
        "add [link.sky] with its `peer`",
    ),
    (
        "&link = \"skye\"\n[link.sky]\npeer = \"a:1\"",
        Error,
        "\"skye\"",
        "there is no link",
        "did you mean \"sky\"?",
    ),
    (
        "§[link.sky]\npeer = \"a:1\"",
        Warning,
        "sky",
        "nothing goes through the link",
        "name it",
    ),
    (
        "&link = \"sky\"\n[link.sky]\npreconnect = 1",
        Error,
        "",
        "`peer` is missing",
        "",
    ),
    (
        "&link = \"sky\"\n[link.sky]\npeer = \"a\"",
        Error,
        "\"a\"",
        "server's address",
        "",
    ),
    (
        "&link = \"sky\"\n[link.sky]\npeer = \"a:1\"\nconnections = 2\npreconnect = 3",
        Error,
        "preconnect",
        "more connections would be opened",
        "`connections` is 2",
    ),
    (
        "&link = \"sky\"\n[link.sky]\npeer = \"a:1\"\nprofile = \"p\"",
        Error,
        "\"p\"",
        "there is no TCP profile",
        "add [tcp_profile.p]",
    ),
    (
        "%link = \"sky\"\n[link.sky]\npeer = \"a:1\"",
        Error,
        "\"sky\"",
        "a switch cannot use a link",
        "mode = \"tunnel\"",
    ),
    (
        "§link = \"sky\"\n[link.sky]\npeer = \"a:1\"",
        Error,
        "link",
        "means nothing in a \"forward\" listener",
        "\"split\"",
    ),
    (
        "[[listener]]\nlisten = \"[::]:4140\"\nmode = \"link\"",
        Error,
        "",
        "everybody could go anywhere",
        "add `allow",
    ),
    (
        "[[listener]]\nlisten = \"[::]:4140\"\nmode = \"link\"\nallow = \"10.0.0.1\"\nhandshake = \"at-once\"",
        Error,
        "handshake",
        "means nothing in a \"link\" listener",
        "",
    ),
    (
        "[[listener]]\nlisten = \"[::]:0\"\nmode = \"link\"\nallow = \"10.0.0.1\"\nkeep_client_address = true",
        Error,
        "\"[::]:0\"",
        "needs a port of its own",
        "4140",
    ),
    (
        "[link.sky]\npeer = \"a:1\"\n[[listener]]\nlisten = \"[::]:3130\"\nmode = \"split\"\nintercept = { ports = [80], from = \"10.0.0.0/8\" }\nlink = \"sky\"\nhandshake = \"server-first\"",
        Error,
        "\"server-first\"",
        "the server is not known",
        "and no link",
    ),
    (
        "[link.sky]\npeer = \"a:1\"\n[[listener]]\nlisten = \"[::]:3130\"\nmode = \"split\"\nintercept = { ports = [80], from = \"10.0.0.0/8\" }\n[[listener.route]]\nsni = \"a\"\nto = \"original\"\nsplit = \"never\"\nlink = \"sky\"",
        Error,
        "\"sky\"",
        "always split",
        "link = \"\"",
    ),
];
