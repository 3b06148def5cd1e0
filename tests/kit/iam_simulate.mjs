// Records what @cloud-copilot/iam-simulate answers to tests/golden/iam_cases.json. In an empty folder:
//   npm install @cloud-copilot/iam-simulate@0.1.173 && cp REPOSITORY/tests/kit/iam_simulate.mjs .
//   node iam_simulate.mjs < REPOSITORY/tests/golden/iam_cases.json > REPOSITORY/tests/golden/iam_simulate.json
// No test runs it: they need Python alone, and the package is AGPL.

import { readFileSync } from "node:fs";
import { runUnsafeSimulation } from "@cloud-copilot/iam-simulate";

const ACCOUNT = "123456789012";
const { version } = JSON.parse(readFileSync("node_modules/@cloud-copilot/iam-simulate/package.json"));

function allowed(policy, { action, resource, context }) {
  const present = Object.entries(context).filter(([, value]) => value !== null && value.length > 0);
  const answer = runUnsafeSimulation({
    request: {
      principal: `arn:aws:iam::${ACCOUNT}:user/someone`,
      action,
      resource: { resource, accountId: ACCOUNT },
      contextVariables: Object.fromEntries(present),
    },
    identityPolicies: [{ name: "policy", policy: { Version: "2012-10-17", Statement: policy } }],
    serviceControlPolicies: [],
    resourceControlPolicies: [],
  }, {});
  return answer === "Allowed";
}

const cases = JSON.parse(readFileSync(0));
const answers = cases.map(({ case: name, policy, requests }) =>
  `  ${JSON.stringify(name)}: ${JSON.stringify(requests.map((request) => allowed(policy, request))).replaceAll(",", ", ")}`);
console.log(`{\n "version": "${version}",\n "answers": {\n${answers.join(",\n")}\n }\n}`);
