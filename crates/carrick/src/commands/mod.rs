//! What the subcommands do, each in a file of its name.
mod admin;
pub mod cache;
pub mod check;
pub mod clean;
pub mod doctor;
pub mod generate;
pub mod lab;
pub mod pace;
pub mod reload;
pub mod run;
pub mod status;
pub mod top;
