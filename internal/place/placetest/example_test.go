package placetest_test

import (
	"context"
	"fmt"
	"log"
	"os"
	"testing"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/place/placetest"
)

// The tests of a place call Run with a Harness. The Harness says how to open the place, and has prompts for its agents.
// Here the place is the fake. directory_suite_test.go shows the same for a real place. In your package, the test is
// only:
//
//	func TestSuite(t *testing.T) { placetest.Run(t, placetest.Harness{...}) }
func ExampleRun() {
	suite := func(t *testing.T) {
		placetest.Run(t, placetest.Harness{
			New: func(t *testing.T) fleet.Place {
				place := fake.New(fake.Config{NoMessages: true, NoQuestions: true})
				t.Cleanup(place.Destroy)
				return place
			},
			Project: "Setup",
			Role:    "operator",
			// Leave out the prompts for features that the agents do not have. The suite checks that the traits of the
			// place agree.
			Prompts: placetest.Prompts{
				Says:    placetest.Prompt{Text: "echo one\necho two\ndone all said", Lines: []string{"one", "two"}, Summary: "all said"},
				Works:   placetest.Prompt{Text: "echo at work\nwork 1000h", Lines: []string{"at work"}},
				Fails:   placetest.Prompt{Text: "fail out of ideas", Reason: "out of ideas"},
				Payload: placetest.Prompt{Text: "payload the result\ndone ok", Payload: []byte("the result")},
			},
		})
	}
	fmt.Println("the place passes:", passes(suite))
	// Output: the place passes: true
}

// This example calls the small place of directory_test.go step by step. In Fleet, the reconciler makes these calls. A
// place never decides when to do something.
func Example() {
	ctx := context.Background()
	root, err := os.MkdirTemp("", "place")
	check(err)
	defer os.RemoveAll(root)
	self, err := os.Executable()
	check(err)
	place, err := newDirectory(root, self)
	check(err)
	defer place.Close()

	agent := fleet.Agent{UID: "a1", Name: "ada", Project: "scripts", Role: "worker", Spec: "Try things"}
	workspace, err := place.Provision(ctx, agent)
	check(err)
	fmt.Println("provisioned:", workspace.State)
	_, err = place.Provision(ctx, agent) // a second call finds the same workspace
	check(err)
	all, err := place.List(ctx)
	check(err)
	fmt.Println("workspaces:", len(all))

	run := fleet.Run{TaskID: "t1", Prompt: "echo hello", Timeout: fleet.DefaultCheckTimeout}
	runner := place.Connect(agent)
	check(runner.Dispatch(ctx, run))
	outcome, err := runner.Follow(ctx, run, "", func(fleet.Output) error { return nil })
	check(err)
	fmt.Println("task:", outcome.Status, "-", outcome.Summary)

	check(place.Stop(ctx, agent))
	fmt.Println("a task now:", fleet.ReasonOf(runner.Dispatch(ctx, fleet.Run{TaskID: "t2", Prompt: "echo", Timeout: run.Timeout})))
	_, err = place.Delete(ctx, agent)
	check(err)
	workspace, err = place.Inspect(ctx, agent)
	check(err)
	fmt.Println("deleted:", workspace.State)
	// Output:
	// provisioned: running
	// workspaces: 1
	// task: completed - hello
	// a task now: AGENT_OFFLINE
	// deleted: deleted
}

// passes runs the test, discards what it prints to stdout, and reports whether it passes.
func passes(test func(*testing.T)) bool {
	stdout := os.Stdout
	defer func() { os.Stdout = stdout }()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	check(err)
	defer null.Close()
	os.Stdout = null
	return testing.RunTests(func(_, _ string) (bool, error) { return true, nil }, []testing.InternalTest{{Name: "TestSuite", F: test}})
}

func check(err error) {
	if err != nil {
		log.Panic(err)
	}
}
