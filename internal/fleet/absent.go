package fleet

import (
	"context"
	"io"
)

// absentPlace is a place that the store names and the configuration does not.
type absentPlace struct{ name string }

func (b absentPlace) err() *Error {
	return Errorf(ReasonBackendUnavailable, "the place %q is not configured: start the server with it again", b.name)
}

func (b absentPlace) Traits() Traits                              { return Traits{Name: b.name} }
func (b absentPlace) Projects(context.Context) ([]Project, error) { return nil, b.err() }
func (b absentPlace) Roles(context.Context, string) ([]Role, error) {
	return nil, b.err()
}

func (b absentPlace) Provision(context.Context, Agent) (Workspace, error) {
	return Workspace{}, b.err()
}
func (b absentPlace) Start(context.Context, Agent) error            { return b.err() }
func (b absentPlace) Stop(context.Context, Agent) error             { return b.err() }
func (b absentPlace) Delete(context.Context, Agent) (string, error) { return "", b.err() }
func (b absentPlace) Inspect(context.Context, Agent) (Workspace, error) {
	return Workspace{}, b.err()
}
func (b absentPlace) List(context.Context) ([]Workspace, error) { return nil, b.err() }
func (b absentPlace) Connect(Agent) Runner                      { return absentRunner{b} }
func (b absentPlace) Log(context.Context, Agent, int) ([]string, bool, error) {
	return nil, false, b.err()
}
func (b absentPlace) Close() error { return nil }

// absentRunner is the runner of an agent in an absent place.
type absentRunner struct{ place absentPlace }

func (r absentRunner) Dispatch(context.Context, Run) error { return r.place.err() }
func (r absentRunner) Follow(context.Context, Run, string, func(Output) error) (Outcome, error) {
	return Outcome{}, r.place.err()
}
func (r absentRunner) Changes(context.Context, Run) (*Changes, error) { return nil, r.place.err() }
func (r absentRunner) Patch(context.Context, Changes, string, int64, int) ([]byte, bool, error) {
	return nil, false, r.place.err()
}

func (r absentRunner) Output(context.Context, Run, int64, int) (OutputPage, error) {
	return OutputPage{}, r.place.err()
}
func (r absentRunner) Interrupt(context.Context, Run, bool) error      { return r.place.err() }
func (r absentRunner) Send(context.Context, Run, string, string) error { return r.place.err() }
func (r absentRunner) Answer(context.Context, Run, Question) error     { return r.place.err() }
func (r absentRunner) Check(context.Context, Run, Check) (CheckResult, error) {
	return CheckResult{}, r.place.err()
}
func (r absentRunner) Bundle(context.Context, io.Writer) error { return r.place.err() }
