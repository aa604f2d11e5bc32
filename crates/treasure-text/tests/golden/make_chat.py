"""Writes chat.json: conversations as transformers' `apply_chat_template` renders them, byte for byte.

The templates are written for this file in the manners of published ones: LLaDA's and Llama 3's headers, ChatML with a
default system message as Dream's and Qwen's, and what else templates use (namespaces, loop controls, Python's methods
of texts, `tojson`, generation marks, a template that refuses).
Usage: python make_chat.py (made with transformers 5; needs tokenizers)
"""

import json
import pathlib

import transformers
from tokenizers import Tokenizer, models
from transformers import PreTrainedTokenizerFast

HEADERS = (
    "{% set turns = messages %}{% for turn in turns %}"
    "{% set said = '<|start_header_id|>' + turn['role'] + '<|end_header_id|>\n\n' + turn['content'] | trim + '<|eot_id|>' %}"
    "{% if loop.index0 == 0 %}{% set said = bos_token + said %}{% endif %}{{ said }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}{% endif %}"
)
CHATML = """{%- if messages[0]['role'] == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0]['content'] + '<|im_end|>\\n' }}
{%- else %}
    {{- '<|im_start|>system\\nYou are a helpful assistant.<|im_end|>\\n' }}
{%- endif %}
{%- for turn in messages %}
    {%- if (turn.role == "user") or (turn.role == "system" and not loop.first) or turn.role == "assistant" %}
        {{- '<|im_start|>' + turn.role + '\\n' + turn.content + '<|im_end|>' + '\\n' }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
{%- endif %}
"""
TRICKS = """{% set state = namespace(users=0) %}
{% for turn in messages %}
  {% if turn.role == 'system' %}{% continue %}{% endif %}
  {% if turn['role'] == 'user' %}
    {% set state.users = state.users + 1 %}
[{{ state.users }}] {{ turn.content.strip() | upper }}
  {% else %}
    {% generation %}
{{ turn.content.lstrip().split(' ')[0] }}|{{ turn.content | length }}|{{ turn | tojson }}
    {% endgeneration %}
  {% endif %}
{% endfor %}
{{ tools is none }} {{ documents is defined and documents }} {{ unknown_thing is defined }} {{ messages[-1:][0].role.title() }}
{{- eos_token if add_generation_prompt else '' }}
"""
STRICT = """{{ bos_token }}{% for turn in messages %}{% if (turn['role'] == 'user') != (loop.index0 % 2 == 0) %}\
{{ raise_exception('roles must alternate') }}{% endif %}[{{ turn['role'] }}] {{ turn['content'] }}{% endfor %}"""

user = lambda text: {"role": "user", "content": text}
assistant = lambda text: {"role": "assistant", "content": text}
system = lambda text: {"role": "system", "content": text}
TALKS = [
    [user("Hello!")],
    [user("  How many\n kilometres? \n")],
    [system("Be brief."), user("Hi <b>&amp;</b> 'you' \"two\"")],
    [user("Zwölf Boxkämpfer 北京 🙂"), assistant(" Ja, natürlich.\n"), user("Und?")],
    [system(""), user("a"), assistant("b c"), user("d"), assistant("e\tf")],
    [assistant("first")],
]


def main():
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel({"<|startoftext|>": 0, "<|endoftext|>": 1, "[UNK]": 2}, "[UNK]")),
        bos_token="<|startoftext|>", eos_token="<|endoftext|>", unk_token="[UNK]",
    )
    rows = []
    for name, template in dict(headers=HEADERS, chatml=CHATML, tricks=TRICKS, strict=STRICT).items():
        for messages in TALKS:
            for reply in (True, False):
                try:
                    text = tokenizer.apply_chat_template(
                        messages, chat_template=template, tokenize=False, add_generation_prompt=reply
                    )
                except Exception as error:
                    text = None
                    assert name == "strict", error
                rows.append({"template": name, "messages": messages, "reply": reply, "text": text})
    made = {
        "transformers": transformers.__version__,
        "config": {"bos_token": "<|startoftext|>", "eos_token": {"content": "<|endoftext|>"}, "unk_token": "[UNK]"},
        "templates": dict(headers=HEADERS, chatml=CHATML, tricks=TRICKS, strict=STRICT),
        "cases": rows,
    }
    path = pathlib.Path(__file__).parent / "chat.json"
    path.write_text(json.dumps(made, indent=1, ensure_ascii=False) + "\n")
    print(len(rows), "cases, refused:", sum(row["text"] is None for row in rows))


main()
