// Package placetest is the test suite for implementations of fleet.Place. It checks the contract in the comments of that
// interface, with a new world for each case: a host without workspaces of other cases. The Harness says which features a
// place does not have. A bug fix in a place starts with a new case here.
//
// The suite waits for outputs and for the ends of runs, which a place reports. It polls for the state of a workspace and for
// the start of a check, because a place reports neither.
//
// The tests of places call Run. The package must never import a particular place, except in its own tests. The differences between
// places are in the Harness.
package placetest

import (
	"cmp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"fleet/internal/fleet"
	"fleet/internal/waittest"
)

// Harness says how to create a place, and has prompts that make its agents do what the cases need.
type Harness struct {
	// New returns a place with its own world. The suite deletes the agents and closes the place. New registers any
	// other cleanup with t.
	New func(t *testing.T) fleet.Place

	// Reopen returns another place with the world of p, like a server that starts after a crash. p may be closed, and
	// is not used afterwards. The suite closes the new place.
	Reopen func(t *testing.T, p fleet.Place) fleet.Place

	Project string // an existing project
	Role    string // a role of the project
	// SelfStarting is a project whose agents start to work on their spec by themselves; empty if there is none.
	SelfStarting string
	// Repository is a project whose agents work in a git repository; empty: Project.
	Repository string

	Prompts Prompts

	// SampleConfig is the configuration of an agent without a project. The agent does what Prompts.Says requests. SampleConfig is
	// nil if the place does not support configurations.
	SampleConfig *fleet.AgentConfig

	// AgentConfig is the configuration of all agents, and replaces Project and Role. If it is nil, the agents work in Project
	// and have no configuration.
	AgentConfig *fleet.AgentConfig

	// Forget deletes all conversations of Prompts.Converses, as if the home of the workspace had been recreated. It is required if
	// Prompts.Converses is set.
	Forget func(t *testing.T)

	// Checks are commands for Check. Leave them empty if the place does not have the trait SupportsChecks.
	Checks CheckCommands

	// Landing is a project whose agents' work lands in one repository.
	Landing LandingProject

	// Hide makes the host stop showing the agent's workspace to p, as if the rights of p's user had changed. It returns a
	// function that undoes this. If Hide is nil, nothing can hide a workspace.
	Hide func(t *testing.T, p fleet.Place, a fleet.Agent) (show func())
	// ChangeCaller makes p's requests come from another user of the host, as if its token had been replaced. It returns a
	// function that undoes this. If ChangeCaller is nil, the host does not know its callers.
	ChangeCaller func(t *testing.T, p fleet.Place) (back func())

	// GiveAway gives the agent's workspace to another Fleet, which uses the same host and the same user. If GiveAway is nil, only
	// one Fleet can use the host.
	GiveAway func(t *testing.T, p fleet.Place, a fleet.Agent)

	// TimeLimit is the time limit of runs in the cases about time limits. A run that exceeds the limit must have a
	// reason that contains the limit, as time.Duration prints it. The limit must be short, but long enough for a first
	// line of output; 0: 1 s.
	TimeLimit time.Duration
}

// Prompts are the prompts for agents.
type Prompts struct {
	// Says prints Lines, which has at least two lines, and completes with Summary.
	Says Prompt

	// Works prints Lines, which has at least one line, and then works until it is interrupted.
	Works Prompt

	// Fails fails with a reason that contains Reason.
	Fails Prompt

	// IgnoresInterrupt prints Lines, which has at least one line, and works forever. On an interrupt without kill, it
	// prints Reply and continues. Leave it empty if no agent can do that.
	IgnoresInterrupt Prompt

	// Payload completes with Payload. Leave it empty if the place has no payloads.
	Payload Prompt

	// Changes changes one file in the agent's repository, and completes. The patch contains Lines, and Summary is the
	// path of the file. Leave it empty if the place does not have the trait SupportsChanges.
	Changes Prompt

	// Listens prints Lines, which has at least one line. It waits for two messages, prints each message, and completes.
	// If Listens is empty, Send must return UNIMPLEMENTED.
	Listens Prompt

	// Asks prints Lines, which has at least one line. It asks for permission to use the tool "Bash" with an input that
	// contains "touch asked", and prints the answer and the message with it. Then it asks the question "tabs or
	// spaces?" with the options "tabs" and "spaces", prints the answer, and completes. Leave it empty if the place
	// does not have the trait Asks.
	Asks Prompt

	// Converses makes a FakeClaude print the number of tasks in its conversation. Leave it empty if agents keep no
	// conversation.
	Converses Prompt

	// UnansweredQuestion asks a question that expires soon. When the question has expired, it prints Reply and completes. Leave it
	// empty if questions do not expire soon.
	UnansweredQuestion Prompt
}

// Prompt is a prompt with its expected results. The fields of Prompts say which fields of a Prompt are used.
type Prompt struct {
	Project string // project of the agent; empty: Harness.Project
	Text    string
	Lines   []string
	Summary string
	Reason  string
	Reply   string
	Payload []byte
}

// CheckCommands are commands that check the work of a run.
type CheckCommands struct {
	// Fails prints Output and fails with exit code 3.
	Fails string
	// Output is a text in the output of Fails and Hangs.
	Output string
	// Hangs prints Output and never ends.
	Hangs string
	// Sees succeeds if the agent has changed the file of Prompts.Changes, and fails otherwise.
	Sees string
}

// Run runs the suite. The test that calls Run must not be parallel, because Run also checks for leaked goroutines.
func Run(t *testing.T, h Harness) {
	require.NotNil(t, h.New, "the harness needs New")
	require.GreaterOrEqual(t, len(h.Prompts.Says.Lines), 2, "the harness needs Prompts.Says with two lines")
	require.NotEmpty(t, h.Prompts.Works.Lines, "the harness needs Prompts.Works with a line")
	require.NotEmpty(t, h.Prompts.Fails.Reason, "the harness needs Prompts.Fails with a reason")
	h.Repository = cmp.Or(h.Repository, h.Project)
	h.TimeLimit = cmp.Or(h.TimeLimit, time.Second)

	before := goleak.IgnoreCurrent()
	t.Run("cases", func(t *testing.T) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				c.run(newFixture(t, h))
			})
		}
	})
	waittest.VerifyNone(t, before)
}

var cases = []struct {
	name string
	run  func(*fixture)
}{
	{"traits do not change", traits},
	{"projects and their roles", projects},
	{"provision", provision},
	{"provision again is the same workspace", provisionAgain},
	{"provision concurrently", provisionConcurrently},
	{"provision in an unknown project", provisionUnknownProject},
	{"provision a name that is taken", provisionTakenName},
	{"inspect an unknown agent", inspectUnknownAgent},
	{"start and stop", startAndStop},
	{"start does not change a running workspace", startRunning},
	{"stop ends runs and keeps their work", stopEndsRuns},
	{"delete", deleteInEachState},
	{"delete an unknown agent", deleteUnknownAgent},
	{"delete ends runs", deleteEndsRuns},
	{"a name can be used again", reuseName},
	{"a workspace that the host does not show", hiddenWorkspace},
	{"another caller", otherCaller},
	{"a workspace of another Fleet", otherFleet},
	{"a run that completes", runCompletes},
	{"a run that fails", runFails},
	{"a run with a payload", runPayload},
	{"consecutive runs", runAfterRun},
	{"agents work at the same time", runsOfTwoAgents},
	{"dispatch again is the same run", dispatchAgain},
	{"dispatch to a busy agent", dispatchBusy},
	{"dispatch to a stopped agent", dispatchStopped},
	{"an agent starts by itself", selfStart},
	{"interrupt work that an agent started by itself", selfStartInterrupted},
	{"an agent that does not start by itself", selfStartMissing},
	{"dispatch without a workspace", dispatchWithoutWorkspace},
	{"follow from every cursor", followCursors},
	{"follow after an error of the sink", followSinkError},
	{"follow a run that was never dispatched", followUndispatched},
	{"follow is interrupted and continued", followContinued},
	{"interrupt", interrupt},
	{"interrupt immediately", interruptImmediately},
	{"interrupt an ended run", interruptEnded},
	{"kill", kill},
	{"a time limit ends a run", timeLimit},
	{"a time limit ends a run that ignores interrupts", timeLimitIgnoringInterrupts},
	{"send", send},
	{"a run asks and gets an answer", questions},
	{"a question expires", questionExpires},
	{"the end of a run withdraws its questions", endWithdrawsQuestions},
	{"a second place answers", takeOverAnswers},
	{"a conversation", conversation},
	{"log", log},
	{"changes", changes},
	{"raw output", output},
	{"checks", checks},
	{"stop a check", checkStopped},
	{"stop a check with its agent", checkStoppedWithAgent},
	{"a second place takes over a check", checkTakeOver},
	{"bundle", bundle},
	{"work comes together", repository},
	{"an agent by its configuration", agentConfig},
	{"a configuration with an unknown driver", configUnknownDriver},
	{"calls that are cancelled before they start", canceledCalls},
	{"calls that are interrupted", interruptedCalls},
	{"close keeps workspaces and runs", closeKeepsWorld},
	{"a second place takes over", takeOver},
	{"a second place sends messages", sendTakeOver},
	{"a time limit holds after the place was closed", timeLimitAfterReopen},
}
