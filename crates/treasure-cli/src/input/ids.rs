//! Token ids on the command line: `1,2,M,4`, with M for a mask.

use crate::failure::{Failure, Outcome};

/// Reads ids with masks (`None`).
pub fn with_masks(text: &str) -> Outcome<Vec<Option<u32>>> {
    text.split(',')
        .enumerate()
        .map(|(place, item)| match item.trim() {
            "M" | "m" => Ok(None),
            // u32::MAX is reserved: no vocabulary reaches it.
            item => match item.parse::<u32>() {
                Ok(id) if id < u32::MAX => Ok(Some(id)),
                _ => Err(Failure::new(format!(
                    "--ids: expected a token id or M at place {place}, got {item:?}"
                ))
                .hint("write ids with commas and M for a mask, such as --ids 5,17,M,42")),
            },
        })
        .collect()
}

/// Reads ids without masks.
pub fn complete(text: &str) -> Outcome<Vec<u32>> {
    with_masks(text)?
        .into_iter()
        .enumerate()
        .map(|(place, id)| {
            id.ok_or_else(|| {
                Failure::new(format!("--ids: expected a token id at place {place}, got a mask"))
                    .hint("only complete sequences are scored; `treasure predict` takes masks")
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_and_masks_are_read_in_order() {
        assert_eq!(with_masks("1, 2,M,4").unwrap(), [Some(1), Some(2), None, Some(4)]);
    }

    #[test]
    fn what_is_no_id_is_named_with_its_place() {
        for bad in ["1,x", "1,", "1,-2", "1,4294967295", "1,99999999999"] {
            let error = with_masks(bad).unwrap_err().to_string();
            assert!(error.contains("at place 1"), "{error}");
        }
        assert!(complete("1,M").unwrap_err().to_string().contains("got a mask"));
    }
}
