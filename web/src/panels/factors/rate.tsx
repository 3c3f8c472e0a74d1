/** The decomposition of the rate of a model. */
import type { Rate } from "../../bundle";
import type { Model } from "../../model";
import { thousands } from "../../text";
import { Panel } from "../../ui/panel";

interface Part {
  name: string;
  value: number;
  style: "a" | "b" | "c";
  /** What a large value means. */
  meaning: string;
}

/** Estimates of the three parts of the rate, from `count` observations. */
export function partsOf(rate: Rate, count = Infinity): Part[] {
  return [
    {
      name: "Mutual information",
      value: rate.mutualInformation,
      style: "a",
      meaning: "Large: codes carry much information about their observation.",
    },
    {
      name: "Total correlation",
      value: rate.totalCorrelation,
      style: "b",
      meaning: isLimited(rate, count)
        ? "Not a measure of dependence here: it contains the rate beyond the limit of the mutual information."
        : "Large: the latent variables depend on each other, so they are not disentangled.",
    },
    {
      name: "Dimension-wise KL",
      value: rate.dimensionKl.reduce((sum, kl) => sum + kl, 0),
      style: "c",
      meaning:
        "Large: single variables are distributed unlike their prior, so samples of the prior look unlike the data.",
    },
  ];
}

export function RatePanel({ model }: { model: Model }) {
  const { rate } = model.data;
  return (
    <Panel
      title="Decomposition of the rate"
      help="The rate is KL(q(z|x) || p(z)), averaged over the data. If the variables are independent under the prior, it is the sum of three parts, which are estimated from samples."
      csv={() => rateTable(model, rate)}
    >
      <Parts model={model} rate={rate} />
    </Panel>
  );
}

/** Why the parts do not sum to the rate, or "" if they do in the digits shown. */
export function remark(rate: Rate): string {
  if (!rate.factorised)
    return "The latent variables depend on each other under the prior, so the parts need not sum to the rate.";
  const left = rate.rate - partsOf(rate).reduce((sum, { value }) => sum + value, 0);
  return Math.abs(left) < 0.005
    ? ""
    : `The sum of the estimates differs from the rate by ${nats(Math.abs(left))} nats.`;
}

const SATURATED = 0.9; // share of log N above which the mutual information is limited by N

/** Whether the mutual information is at its limit for so many observations. */
function isLimited({ mutualInformation }: Rate, count: number): boolean {
  return mutualInformation > SATURATED * Math.log(count);
}

/** A warning if the mutual information is at its limit for so many observations. */
export function limitOf(rate: Rate, count: number): string {
  const limit = Math.log(count);
  return !isLimited(rate, count)
    ? ""
    : `The mutual information is close to its limit, log ${thousands(count)} = ${nats(limit)} nats: the codes distinguish almost all observations. Any rate beyond the limit counts as total correlation, wherever the codes lie.`;
}

function rateTable(model: Model, rate: Rate) {
  const named = (number: number) => model.variable(number).name;
  const rows: [string, number][] = [
    ["rate", rate.rate],
    ...partsOf(rate, model.data.rows.count).map(({ name, value }): [string, number] => [
      name,
      value,
    ]),
    ...rate.dimensionKl.map((kl, n): [string, number] => [`KL(q(z) || p(z)) of ${named(n)}`, kl]),
    ...rate.groups.map(({ name, totalCorrelation }): [string, number] => [
      `Total correlation of ${groupName(name)}`,
      totalCorrelation,
    ]),
  ];
  return { columns: ["part", "nats"], rows };
}

function groupName(name: string): string {
  return name || "the outermost group";
}

function Parts({ model, rate }: { model: Model; rate: Rate }) {
  const { count } = model.data.rows;
  const parts = partsOf(rate, count);
  const remarks = [remark(rate), limitOf(rate, count)].filter(Boolean).join(" ");
  const kls = model.data.variables.map(({ name, number }) => ({
    name,
    value: rate.dimensionKl[number]!,
  }));
  const groups = rate.groups.map(({ name, totalCorrelation }) => ({
    name: groupName(name),
    value: totalCorrelation,
  }));
  return (
    <>
      <StackedBar parts={parts} total={rate.rate} />
      <p class="equation">
        rate {nats(rate.rate)} {rate.factorised ? "≈" : "≠"} mutual information{" "}
        {nats(parts[0]!.value)} + total correlation {nats(parts[1]!.value)} + sum of the
        dimension-wise KL {nats(parts[2]!.value)} nats
      </p>
      {remarks && <p class="help">{remarks}</p>}
      <dl class="rate-parts">
        {parts.map(({ name, value, style, meaning }) => (
          <div key={name}>
            <dt>
              <svg width="12" height="12" class={`rate-part ${style}`} aria-hidden="true">
                <rect width="12" height="12" />
              </svg>{" "}
              {name}, {nats(value)} nats
            </dt>
            <dd>{meaning}</dd>
          </div>
        ))}
      </dl>
      <Bars title="Dimension-wise KL of each variable, in nats" style="c" bars={kls} />
      {groups.length > 1 && (
        <Bars title="Total correlation of each group, in nats" style="b" bars={groups} />
      )}
    </>
  );
}

const WIDTH = 600;

/** Estimates of parts near 0 may be below 0; then they have no bar. */
function StackedBar({ parts, total }: { parts: readonly Part[]; total: number }) {
  const sum = parts.reduce((whole, { value }) => whole + Math.max(value, 0), 0) || 1;
  const label = `Rate of ${nats(total)} nats: ${parts.map(({ name, value }) => `${name} ${nats(value)}`).join(", ")}`;
  let start = 0;
  return (
    <svg
      class="stacked"
      viewBox={`0 0 ${WIDTH} 34`}
      preserveAspectRatio="none"
      role="img"
      aria-label={label}
    >
      {parts.map(({ name, value, style }) => {
        const width = (Math.max(value, 0) / sum) * WIDTH;
        start += width;
        return (
          <g key={name} class={`rate-part ${style}`}>
            <title>{`${name}: ${nats(value)} nats`}</title>
            <rect x={start - width} width={width} height={34} />
          </g>
        );
      })}
    </svg>
  );
}

interface BarsProps {
  title: string;
  style: Part["style"];
  bars: { name: string; value: number }[];
}

function Bars({ title, style, bars }: BarsProps) {
  const top = Math.max(...bars.map(({ value }) => value), 1e-9);
  return (
    <section class="kl-bars">
      <h3>{title}</h3>
      <ul>
        {bars.map(({ name, value }) => (
          <li key={name}>
            <bdi class="name">{name}</bdi>
            <svg
              viewBox="0 0 100 10"
              preserveAspectRatio="none"
              class={`rate-part ${style}`}
              aria-hidden="true"
            >
              <rect width={(100 * Math.max(value, 0)) / top} height={10} />
            </svg>
            <span class="value">{nats(value)}</span>
          </li>
        ))}
      </ul>
    </section>
  );
}

function nats(value: number): string {
  return value.toFixed(2).replace(/^-(0\.00)$/, "$1");
}
