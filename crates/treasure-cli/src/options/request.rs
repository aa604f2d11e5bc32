//! From flags to a request. A flag is a row of the library's tables, so that its name, its meaning and
//! its default are said once for every door.

use std::{marker::PhantomData, path::Path};

use clap::{
    Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches,
    builder::{PossibleValuesParser, TypedValueParser as _, ValueParser},
    parser::ValueSource,
};
use serde_json::{Map, Value};
use treasure::{FIELDS, Field, Group, OPTIONS, Request, Takes};

use super::common::Common;
use crate::{failure::Outcome, input};

/// Which fields of a request a command asks for.
pub trait Asks {
    /// Whether it asks for this one.
    fn asks(field: &Field) -> bool;
}

/// The fields that were given, by name.
#[derive(Debug)]
pub struct Flags<T> {
    given: Map<String, Value>,
    command: PhantomData<T>,
}

impl<T> Flags<T> {
    /// The request that they are.
    pub fn request(&self, common: &Common) -> Outcome<Request> {
        let mut given = self.given.clone();
        given.extend(common.seed.map(|seed| ("seed".into(), seed.into())));
        Ok(Request::from_value(given.into())?)
    }
}

/// The fields that a command has flags for.
fn fields<T: Asks>() -> impl Iterator<Item = &'static Field> {
    FIELDS.iter().chain(OPTIONS).filter(|field| T::asks(field))
}

/// Whether a command takes a method's options, those without a flag of their own too.
fn takes_options<T: Asks>() -> bool {
    OPTIONS.iter().any(T::asks)
}

impl<T: Asks> Args for Flags<T> {
    fn augment_args(command: Command) -> Command {
        let set = Arg::new("set")
            .long("set")
            .value_name("NAME=VALUE")
            .help("Any other option of a method, by name; may be repeated")
            .help_heading(Group::Search.heading())
            .action(ArgAction::Append)
            .value_parser(setting);
        command.args(fields::<T>().map(flag)).args(takes_options::<T>().then_some(set))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl<T: Asks> FromArgMatches for Flags<T> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let mut flags = Self { given: Map::new(), command: PhantomData };
        flags.update_from_arg_matches(matches)?;
        Ok(flags)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        for field in fields::<T>() {
            if matches.value_source(field.name) != Some(ValueSource::CommandLine) {
                continue;
            }
            let mut values = matches.get_many::<Value>(field.name).into_iter().flatten().cloned();
            let value = match field.takes {
                Takes::Texts | Takes::Words => Some(values.collect()),
                _ => values.next(),
            };
            self.given.extend(value.map(|value| (field.name.to_owned(), value)));
        }
        if takes_options::<T>() {
            let set = matches.get_many::<(String, Value)>("set");
            self.given.extend(set.into_iter().flatten().cloned());
        }
        Ok(())
    }
}

fn flag(field: &Field) -> Arg {
    let default = match field.default {
        "" => String::new(),
        default => format!(" [default: {default}]"),
    };
    let arg = Arg::new(field.name)
        .long(field.name.replace('_', "-"))
        .value_name(field.value)
        .help(format!("{}{default}", field.help))
        .help_heading(field.group.heading())
        .value_parser(parser(field.takes));
    match field.takes {
        Takes::Texts => arg.action(ArgAction::Append),
        Takes::Words => arg.action(ArgAction::Append).value_delimiter(','),
        _ => arg,
    }
}

fn parser(takes: Takes) -> ValueParser {
    match takes {
        Takes::Text | Takes::Texts | Takes::Words => {
            ValueParser::new(|text: &str| Ok::<_, String>(Value::from(text)))
        }
        Takes::Choice(words) => {
            ValueParser::new(PossibleValuesParser::new(words.iter().copied()).map(Value::from))
        }
        Takes::Count(least) => ValueParser::new(move |text: &str| {
            let count = text.parse::<u64>().ok().filter(|count| *count >= least).map(Value::from);
            count.ok_or_else(|| format!("expected a whole number from {least}, got {text:?}"))
        }),
        Takes::Number => ValueParser::new(|text: &str| super::number(text).map(Value::from)),
        Takes::Schema => ValueParser::new(|path: &str| {
            let content = input::read(Path::new(path)).map_err(|failure| failure.line())?;
            serde_json::from_str::<Value>(&content)
                .map_err(|error| format!("expected a JSON Schema, got {error}"))
        }),
        Takes::Option | Takes::Flag | Takes::Messages => {
            ValueParser::new(|text: &str| Ok::<_, String>(option(text)))
        }
    }
}

/// A number or an object where it is one, else the word as written: what it must be is the method's to say.
fn option(text: &str) -> Value {
    match serde_json::from_str::<Value>(text) {
        Ok(value @ (Value::Number(_) | Value::Object(_))) => value,
        _ => Value::from(text),
    }
}

fn setting(text: &str) -> Result<(String, Value), String> {
    let (name, given) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    Ok((name.trim_start_matches("--").replace('-', "_"), option(given)))
}
