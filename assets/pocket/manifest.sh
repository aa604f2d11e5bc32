#!/bin/sh
# Writes manifest.tsv: the size of every file the binary embeds. Run after any change of a pocket model.
set -eu
cd "$(dirname "$0")"
{
  printf '# bytes\tmodel/file; written by manifest.sh\n'
  for file in */config.json */model.safetensors */tokenizer.json */tokenizer_config.json */README.md; do
    [ -f "$file" ] && printf '%s\t%s\n' "$(wc -c <"$file" | tr -d ' ')" "$file"
  done | sort -t "$(printf '\t')" -k 2
} >manifest.tsv
