//! The server as its clients meet it: in-process where a call is enough, over a socket where a
//! connection matters.

mod call;
mod chat;
mod fuzz;
mod network;
mod operations;
mod outside;
mod pocket;
mod refusals;
mod routes;
mod same_bytes;
mod streaming;
mod toy;
