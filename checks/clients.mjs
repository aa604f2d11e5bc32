// OpenAI's JavaScript client against the server: completions, chat, streaming, errors.
import OpenAI from "openai";

const check = (what, holds) => {
  console.log((holds ? "ok      " : "FAILED  ") + what);
  if (!holds) process.exit(1);
};
const client = new OpenAI({ baseURL: `${process.argv[2]}v1`, apiKey: "none", maxRetries: 0 });
const ask = { model: "pocket", prompt: "The old dog", max_tokens: 12, seed: 3, treasure: { reward: "sentiment=negative", min_length: 6 } };

const { choices: [choice], usage } = await client.completions.create(ask);
check(`JavaScript completes: ${JSON.stringify(choice.text)}`, choice.text && usage.completion_tokens > 0 && Number.isFinite(choice.treasure.reward));
let text = "";
for await (const chunk of await client.completions.create({ ...ask, stream: true })) text += chunk.choices[0]?.text ?? "";
check("JavaScript streams", text === choice.text);
const masks = [];
for await (const chunk of await client.completions.create({ ...ask, stream: true, diffusing: true })) {
  if (chunk.diffusion_meta) masks.push(chunk.diffusion_meta.masks_left);
}
check(`JavaScript watches: masks ${masks}`, masks[0] === 12 && masks.at(-1) === 0);
const { prompt, ...rest } = ask;
const chat = await client.chat.completions.create({ ...rest, model: "pocket", messages: [{ role: "user", content: prompt }] });
check("JavaScript chats", chat.choices[0].message.content === choice.text);
try {
  await client.completions.create({ ...ask, treasure: { beam_widht: 3 } });
  check("JavaScript hears a refusal", false);
} catch (error) {
  check(`JavaScript hears a refusal: ${error.message.split("\n")[0]}`, error instanceof OpenAI.BadRequestError && error.param === "treasure.beam_widht");
}
