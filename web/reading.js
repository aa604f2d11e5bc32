// Numbers as people read them. How a reward reads comes from the server's catalogue (`/v1/rewards`, field `value`).

const plain = new Intl.NumberFormat("en", { maximumFractionDigits: 3, minimumFractionDigits: 3 });
const whole = new Intl.NumberFormat("en");

export const count = (n) => (Number.isFinite(n) ? whole.format(n) : "–");

export const number = (x) => (Number.isFinite(x) ? plain.format(x).replace("-", "−") : "–");

export const seconds = (s) => `${s < 10 ? s.toFixed(1) : count(Math.round(s))} s`;

export const probability = (p) => (p > 0.995 && p < 1 ? ">0.99" : p < 0.005 && p > 0 ? "<0.01" : p.toFixed(2));

export const quoted = (text) => `“${text.replace(/\n/g, "⏎").trim() || text.replace(/ /g, "␣")}”`;

let catalogue = [];
export const learn = (rewards) => {
  catalogue = rewards;
};

// The entry of a reward: its own, or that of its scheme (`contains:`).
export const known = (spec) =>
  catalogue.find((entry) => entry.id === spec) ?? catalogue.find((entry) => entry.id.endsWith(":") && spec.startsWith(entry.id)) ?? null;

// The judge beside a reward that no search for it is paid for, if there is one.
export const heldOut = (spec) => known(spec)?.held_out ?? null;

const WEIGHT = /^([-+.\d][-+.\w]*)\s*\*\s*(.*)$/s;

export const unweighted = (spec) => WEIGHT.exec(spec)?.[2] ?? spec;

// A reward's number as { shown, how }: “0.91”, “probability”.
export const reading = (spec, value) => {
  if (!Number.isFinite(value)) return { shown: "–", how: "" };
  const weight = WEIGHT.exec(spec);
  const [own, name] = weight && Number(weight[1]) ? [value / Number(weight[1]), weight[2]] : [value, spec];
  switch (known(name)?.value) {
    case "log-probability":
      return { shown: probability(Math.exp(own)), how: "probability" };
    case "mean-log-likelihood":
      return { shown: Math.exp(-own).toFixed(1), how: "perplexity, lower is better" };
    case "unit":
      return { shown: own.toFixed(2), how: "of 1" };
    default:
      return { shown: number(own), how: "" };
  }
};

// A whole reward: one part reads as itself, a sum as its number.
export const total = (answer) => {
  const parts = Object.keys(answer.rewards ?? {});
  const { shown, how } = parts.length === 1 ? reading(parts[0], answer.rewards[parts[0]]) : { shown: number(answer.reward), how: "sum" };
  return { shown, how };
};

const calls = (n, whose) => `${count(n)} ${whose} ${n === 1 ? "call" : "calls"}`;

export const spent = ({ nfe, reward_calls, seconds: s }) =>
  [calls(nfe, "model"), calls(reward_calls, "judge"), ...(Number.isFinite(s) ? [seconds(s)] : [])].join(" · ");
