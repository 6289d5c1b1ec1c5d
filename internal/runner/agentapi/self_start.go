package agentapi

import (
	"context"

	"fleet/internal/fleet"
)

// waitStarted waits until the agent has started the run by itself. If the agent stays idle, waitStarted returns TASK_NOT_FOUND. It also
// gives up if it cannot read the conversation. It never sends the prompt, because the agent might then get the prompt twice.
func (runners *Runners) waitStarted(ctx context.Context, a fleet.Agent, r fleet.Run, workspace Workspace, api *client) error {
	t := runners.transcripts.getOrCreate(r.TaskID)
	idleChecks, failures := 0, 0
	for {
		v, err := api.readView(ctx)
		switch {
		case err != nil:
			if failures++; failures >= maxFailedReads {
				return notAcceptedError(a, err)
			}
			if err := runners.waitAfterFailure(ctx, a, workspace, err); err != nil {
				return err
			}
			continue
		case runners.locate(v, a, r, t) >= 0:
			return nil
		case v.status == statusStable:
			if idleChecks++; idleChecks > maxIdleChecks {
				return fleet.Errorf(fleet.ReasonTaskNotFound,
					"the agent %q has not begun to work on its spec by itself, because its template does not pass the spec to AgentAPI: set spec_is_task to false for the project", a.Name)
			}
		}
		if err := runners.config.Wait(ctx, idlePollPause); err != nil {
			return err
		}
	}
}

// maxIdleChecks is how many checks may find the agent idle before waitStarted gives up. These checks take about 15 seconds.
const maxIdleChecks = 50
