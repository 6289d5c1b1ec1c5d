// Package placetest is the suite that every fleet.Place passes. It holds a backend to the comments of the port, on
// a fresh world a case; what a backend cannot do its Harness says. A bug in a backend is first a new case here.
//
// The suite waits for signals, that is for output and ends of runs. Only where the port has none, for the state of a
// workspace, it polls.
package placetest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"fleet/internal/fleet"
)

// Harness says how to make a backend, and how its agents are told to do what the cases need.
type Harness struct {
	// New returns a backend over a world of its own. The suite closes it, after it has deleted its agents; what else is
	// to be cleaned up is New's to register with t.
	New func(t *testing.T) fleet.Place

	// Reopen returns another backend over the world of b, as a server has it that starts after a crash; b may be closed,
	// and is not used after. The suite closes the new one. Nil when the backend cannot be had twice.
	Reopen func(t *testing.T, b fleet.Place) fleet.Place

	Project string // one that is there
	Role    string // one of its roles
	// Begins is a project whose agents begin to work on their spec by themselves; empty when there is none.
	Begins string
	// Repository is a project whose agents work in a git repository; Project unless it is set.
	Repository string
	Owner      string // "alice" unless it is set

	Prompts Prompts

	// Recipe makes an agent that does what Prompts.Says is about, in no project. Nil when the backend takes no recipes.
	Recipe *fleet.Recipe

	// NoResume says that Follow always begins at the beginning of the run.
	NoResume bool

	// RunsEndAtClose says that runs are in the backend's own process: one that is under way when the backend is closed has
	// failed, and is not given to its agent again.
	RunsEndAtClose bool

	// OfRecipe is what all agents are made of, in place of Project and Role; nil: they are made of those.
	OfRecipe *fleet.Recipe

	// Forget loses all conversations of Prompts.Talks, as a workspace does whose home is made anew.
	Forget func(t *testing.T)

	// Checks are commands for Check. Without them, it is UNIMPLEMENTED.
	Checks Checks

	// NoLog says that workspaces have no log.
	NoLog bool

	// TimeLimit is how long a run may take in the cases about that; the reason of a run that took longer names it as
	// time.Duration prints it. Short, and yet long enough for a run to put out its first line; 1 s unless it is set.
	TimeLimit time.Duration

	// Patience is how long anything may take before the suite calls it stuck; 30 s unless it is set.
	Patience time.Duration
}

// Prompts are what agents are told to do.
type Prompts struct {
	// Says writes Lines, at least two, and completes with Summary.
	Says Prompt

	// Works writes Lines, at least one, and then works for ever, until it is interrupted.
	Works Prompt

	// Fails fails with a reason that contains Reason.
	Fails Prompt

	// Deaf writes Lines, at least one, and works for ever. When it is interrupted politely, it writes Reply and goes on.
	// Without it, the backend has no agent that can do so.
	Deaf Prompt

	// Payload completes with Payload. Without it, the backend has no payloads.
	Payload Prompt

	// Changes changes one file of the repository that the agent works in, and completes; Lines are in its patch, and Summary
	// is the path of the file. Without it, Changes is UNIMPLEMENTED.
	Changes Prompt

	// Listens writes Lines, at least one, waits for two messages, writes each, and completes. Without it, Send is
	// UNIMPLEMENTED.
	Listens Prompt

	// Asks writes Lines, at least one, asks for the permission to use the tool "Bash" with an input that has the text
	// "touch asked" in it, writes the answer and the message with it, asks the question "tabs or spaces?" with the options
	// "tabs" and "spaces", writes the answer, and completes. Without it, Answer is UNIMPLEMENTED.
	Asks Prompt

	// Talks has a Talker say how many tasks its conversation has. Without it, agents keep no conversation.
	Talks Prompt

	// AsksInVain asks a question that expires soon, writes Reply, and completes.
	AsksInVain Prompt
}

// Prompt is something for an agent to do, and what is to be seen when it does. Which fields count, Prompts says.
type Prompt struct {
	Project string // whose agents do it; empty: Harness.Project
	Text    string
	Lines   []string
	Summary string
	Reason  string
	Reply   string
	Payload []byte
}

// Checks are commands that check the work of a run.
type Checks struct {
	// Fails puts Output out and fails with the exit code 3.
	Fails, Output string
	// Hangs puts Output out and never ends.
	Hangs string
	// Sees passes if the agent has changed the file that Prompts.Changes changes, and fails otherwise.
	Sees string
}

// Run runs the suite. The test that calls it must not be parallel, because Run also looks for goroutines left behind.
func Run(t *testing.T, h Harness) {
	require.NotNil(t, h.New, "the harness needs New")
	require.GreaterOrEqual(t, len(h.Prompts.Says.Lines), 2, "the harness needs Prompts.Says with two lines")
	require.NotEmpty(t, h.Prompts.Works.Lines, "the harness needs Prompts.Works with a line")
	require.NotEmpty(t, h.Prompts.Fails.Reason, "the harness needs Prompts.Fails with a reason")
	if h.Owner == "" {
		h.Owner = "alice"
	}
	if h.Repository == "" {
		h.Repository = h.Project
	}
	if h.TimeLimit == 0 {
		h.TimeLimit = time.Second
	}
	if h.Patience == 0 {
		h.Patience = 30 * time.Second
	}

	before := goleak.IgnoreCurrent()
	t.Run("cases", func(t *testing.T) {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				c.run(newBench(t, h))
			})
		}
	})
	goleak.VerifyNone(t, before)
}

var cases = []struct {
	name string
	run  func(*bench)
}{
	{"traits do not change", traits},
	{"projects and their roles", projects},
	{"provision", provision},
	{"provision again is the same workspace", provisionAgain},
	{"provision many at once", provisionMany},
	{"provision in an unknown project", provisionUnknownProject},
	{"provision a name that is taken", provisionTakenName},
	{"inspect what never was", inspectNothing},
	{"start and stop", startAndStop},
	{"start leaves a running workspace alone", startRunning},
	{"stop ends runs and keeps what they did", stopEndsRuns},
	{"delete", deleteTwice},
	{"delete what never was", deleteNothing},
	{"delete ends runs", deleteEndsRuns},
	{"a name can be used again", deleteThenSameName},
	{"a run that completes", runCompletes},
	{"a run that fails", runFails},
	{"a run with a payload", runPayload},
	{"one run after another", runAfterRun},
	{"agents work at the same time", runsOfManyAgents},
	{"dispatch again is one run", dispatchAgain},
	{"dispatch to a busy agent", dispatchBusy},
	{"dispatch to a stopped agent", dispatchStopped},
	{"an agent begins by itself", beginsItself},
	{"what an agent began by itself is interrupted", beginsInterrupted},
	{"an agent that begins nothing", beginsNothing},
	{"dispatch to no workspace", dispatchNothing},
	{"follow from every cursor", followCursors},
	{"follow after the sink gave up", followSinkError},
	{"follow a run that was never given", followNothing},
	{"follow is cut off and taken up", followCutOff},
	{"interrupt", interrupt},
	{"interrupt at once", interruptAtOnce},
	{"interrupt what has ended", interruptEnded},
	{"kill", kill},
	{"a time limit ends a run", timeLimit},
	{"a time limit ends a deaf run", timeLimitDeaf},
	{"send", send},
	{"a run asks and is answered", asks},
	{"a question expires", asksInVain},
	{"a run that ends takes its questions with it", asksAndEnds},
	{"a second backend answers", asksTakeOver},
	{"a conversation", conversation},
	{"log", log},
	{"changes", changes},
	{"raw output", output},
	{"checks", checks},
	{"a check is stopped", checkStopped},
	{"a check is stopped with its agent", checkStoppedWithAgent},
	{"a second backend takes over a check", checkTakeOver},
	{"bundle", bundle},
	{"an agent by its recipe", recipe},
	{"a recipe with an unknown driver", recipeUnknownDriver},
	{"calls that are cut off at the start", canceled},
	{"calls that are cut off half-way", cutOff},
	{"close leaves workspaces and runs", closeLeaves},
	{"a second backend takes over", takeOver},
	{"a second backend sends messages", sendTakeOver},
	{"a time limit holds while nobody looks", timeLimitAlone},
}
