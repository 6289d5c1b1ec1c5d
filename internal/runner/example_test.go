package runner_test

import (
	"context"
	"fmt"
	"log"
	"os"

	"fleet/internal/fleet"
	"fleet/internal/runner"
	"fleet/internal/runner/driver"
)

// scriptWorkspace is the workspace of an agent whose tasks are shell scripts. A place implements runner.Workspace in the same way, and
// derives the results from its own agents.
type scriptWorkspace struct{ dir string }

// Ready implements runner.Workspace.
func (w scriptWorkspace) Ready() error { return nil }

// Work implements runner.Workspace.
func (w scriptWorkspace) Work(fleet.Run) (runner.Work, error) {
	shell, err := driver.New(driver.Options{Kind: "shell"})
	return runner.Work{Driver: shell, Dir: w.dir, Job: driver.Job{Agent: "papi", Spec: "Try things"}}, err
}

// Tree implements runner.Workspace. The agent works in no repository.
func (w scriptWorkspace) Tree() (*runner.Tree, error) { return nil, nil }

// A place on this machine gives its agents' runs to a Host. Each run has a supervisor. The supervisor is the same
// program, whose main calls Main first.
func Example() {
	dir, err := os.MkdirTemp("", "papi")
	check(err)
	defer os.RemoveAll(dir)
	self, err := os.Executable()
	check(err)
	host := runner.New(runner.Config{Program: self})
	defer host.Close()
	home := runner.Home(dir)
	check(home.Make())
	agent := host.Agent("papi", home, scriptWorkspace{dir})

	ctx := context.Background()
	run := fleet.Run{TaskID: "1", Prompt: "echo working\necho 'The answer is 42' >\"$FLEET_SUMMARY\"", Timeout: fleet.DefaultCheckTimeout}
	check(agent.Dispatch(ctx, run))
	outcome, err := agent.Follow(ctx, run, "", func(o fleet.Output) error {
		fmt.Print(o.Text)
		return nil
	})
	check(err)
	fmt.Println(outcome.Status, "-", outcome.Summary)

	// The run is on disk. Any process can follow it again, from any cursor, also after a crash.
	check(agent.Dispatch(ctx, run)) // does nothing, because the agent already has this task
	again, err := agent.Follow(ctx, run, "", func(fleet.Output) error { return nil })
	check(err)
	fmt.Println(again.Status, "-", again.Summary)
	// Output:
	// working
	// completed - The answer is 42
	// completed - The answer is 42
}

func check(err error) {
	if err != nil {
		log.Panic(err)
	}
}
