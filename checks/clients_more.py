"""litellm against the server, and a validator on its OpenAPI document."""

import json
import sys
import urllib.request

import litellm
from openapi_spec_validator import validate

address, without_chat = sys.argv[1:]


def check(what, holds):
    print(("ok      " if holds else "FAILED  ") + what, flush=True)
    if not holds:
        sys.exit(1)


document = json.load(urllib.request.urlopen(address + "openapi.json"))
validate(document)
check(f"the OpenAPI document is valid, {len(document['paths'])} routes", True)
ask = {"api_base": address + "v1", "api_key": "none", "max_tokens": 12, "seed": 3,
       "extra_body": {"treasure": {"reward": "sentiment=negative", "min_length": 6}}}
text = litellm.text_completion(model="text-completion-openai/pocket", prompt="The old dog", **ask).choices[0].text
check(f"litellm completes: {text!r}", text)
chat = litellm.completion(model="openai/pocket", messages=[{"role": "user", "content": "The old dog"}], **ask)
check(f"litellm chats: {chat.choices[0].message.content!r}", chat.choices[0].message.content == text)
parts = litellm.completion(model="openai/pocket", messages=[{"role": "user", "content": "The old dog"}], stream=True, **ask)
check("litellm streams", "".join(part.choices[0].delta.content or "" for part in parts) == text)
try:
    litellm.completion(model="openai/pocket", messages=[{"role": "user", "content": "x"}], **{**ask, "api_base": without_chat + "v1"})
    check("litellm hears a refusal", False)
except litellm.BadRequestError as error:
    check(f"litellm hears a refusal: {str(error).splitlines()[0][:90]}", "chat template" in str(error))
