package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"fleet/internal/fleet"
	"fleet/internal/place/fake"
	"fleet/internal/waittest"
)

// step makes one change for a case, for example it creates an agent, or waits until a call has an expected answer.
// testdata/api/README.md describes its keys.
type step struct {
	Agent any            `yaml:"agent"`
	Task  map[string]any `yaml:"task"`
	Times int            `yaml:"times"`

	Call   string            `yaml:"call"`
	With   map[string]any    `yaml:"with"`
	Until  map[string]any    `yaml:"until"`
	Fails  string            `yaml:"fails"`
	Save   map[string]string `yaml:"save"`
	Caller string            `yaml:"by"`

	Config           string `yaml:"config"` // the new content of the configuration file
	RegisteredServer string `yaml:"heard"`  // the name of another server that registered itself; it does not run

	Place  map[string]any `yaml:"world"`  // changes of the first place, see testFleet.change
	Second map[string]any `yaml:"second"` // changes of the second place
}

// prepare executes the steps. It fails the test if a step fails.
func (f *testFleet) prepare(t *testing.T, steps ...step) {
	t.Helper()
	for _, st := range steps {
		require.NoError(t, f.execute(t.Context(), st))
	}
}

// execute executes the step st.Times times, at least once. Its calls use the in-process connection.
func (f *testFleet) execute(ctx context.Context, st step) error {
	for range max(st.Times, 1) {
		if err := f.executeOnce(ctx, st); err != nil {
			return err
		}
	}
	return nil
}

func (f *testFleet) executeOnce(ctx context.Context, st step) error {
	switch {
	case st.RegisteredServer != "":
		_, err := f.store.RecordHeartbeat(ctx, fleet.Replica{Name: st.RegisteredServer, Machine: "m1", Address: "10.0.0.1:8105", Version: "v1"}, true)
		return err
	case st.Agent != nil:
		with := map[string]any{"project": "Setup", "role": "coder", "spec": "a spec"}
		if fields, ok := st.Agent.(map[string]any); ok {
			maps.Copy(with, fields)
		} else {
			with["name"] = st.Agent
		}
		st.Call, st.With = "create_agent", with
		if err := f.callStep(ctx, st); err != nil {
			return err
		}
		return f.callStep(ctx, step{ // create_agent may answer before the agent is ready
			Call: "show_agent", With: map[string]any{"agent_name": with["name"]}, Caller: st.Caller,
			Until: map[string]any{"agent": map[string]any{"status": "idle"}},
		})
	case st.Task != nil:
		with := maps.Clone(st.Task)
		ends, _ := with["ends"].(bool)
		delete(with, "ends")
		st.Call, st.With = "start_agent_task", with
		save := map[string]string{"_task": "task.id"}
		maps.Copy(save, st.Save)
		st.Save = save
		if err := f.callStep(ctx, st); err != nil || !ends {
			return err
		}
		return f.callStep(ctx, step{Call: "wait_tasks", With: map[string]any{"task_ids": []any{"${_task}"}}, Caller: st.Caller, Until: map[string]any{"done": true}})
	case st.Config != "":
		return os.WriteFile(f.configFile, []byte(st.Config), 0o600)
	case st.Place != nil:
		return f.changeAll(ctx, f.place, st.Place)
	case st.Second != nil:
		return f.changeAll(ctx, f.second, st.Second)
	}
	return f.callStep(ctx, st)
}

// callStep calls the method of the step, and saves parts of the answer. If the step has until, callStep repeats the call after each
// event, and after each listing of the place, until the answer matches.
func (f *testFleet) callStep(ctx context.Context, st step) error {
	ctx, cancel := context.WithTimeout(ctx, waittest.Limit)
	defer cancel()
	signal, done := f.store.Subscribe()
	defer done()
	c, err := f.callOf(st.Call, st.Caller, st.With)
	if err != nil {
		return err
	}
	for {
		r, err := f.callInProcess(ctx, c)
		if err != nil {
			return fmt.Errorf("%s: %w", st.Call, err)
		}
		var diff []string
		switch {
		case r.err != nil && r.err.Reason != st.Fails:
			diff = []string{r.err.String()}
		case r.err == nil && st.Fails != "":
			diff = []string{"it does not fail"}
		case r.err == nil:
			diff = mismatches(f.expandToJSON(st.Until), r.answer)
		}
		if len(diff) == 0 {
			return f.saveParts(st.Save, r.answer)
		}
		if st.Until == nil {
			return fmt.Errorf("%s: %s", st.Call, strings.Join(diff, "\n"))
		}
		select {
		case <-signal:
		case <-f.placeListings:
		case <-ctx.Done():
			return fmt.Errorf("%s: the expected answer did not come: %s", st.Call, strings.Join(diff, "\n"))
		}
	}
}

// callOf returns the call of the method, with the macros in its arguments expanded.
func (f *testFleet) callOf(name, caller string, with map[string]any) (call, error) {
	m := methods[name]
	if m == nil {
		return call{}, fmt.Errorf("unknown method %q", name)
	}
	args, _ := f.expand(with).(map[string]any)
	return call{method: m, args: args, caller: caller}, nil
}

// call calls the method over the face, with the token whose name is caller, and returns the answer. It expands macros in the arguments.
func (f *testFleet) call(t *testing.T, face, method, caller string, with map[string]any) reply {
	t.Helper()
	c, err := f.callOf(method, caller, with)
	require.NoError(t, err)
	r, err := faces[face](f, t.Context(), c)
	require.NoError(t, err, "%s by %q over %s", method, caller, face)
	return r
}

var macro = regexp.MustCompile(`\$\{(\w+)\}|<(repeat|byte|first) ([^>]*)>`)

// expand replaces macros in all texts of v: ${name} by a saved value, <repeat TEXT N> by a repeated text, <byte ff> by a byte, and
// <first 6 of name> by the first bytes of a saved value. It converts numbers to json.Number, and panics on a malformed macro.
func (f *testFleet) expand(v any) any {
	switch v := v.(type) {
	case string:
		if !strings.ContainsAny(v, "$<") { // a regular expression takes long with the race detector
			return v
		}
		return macro.ReplaceAllStringFunc(v, func(text string) string {
			m := macro.FindStringSubmatch(text)
			switch m[2] {
			case "repeat":
				what, n, _ := strings.Cut(m[3], " ")
				times, err := strconv.Atoi(n)
				if err != nil {
					panic(text + " has no number")
				}
				return strings.Repeat(what, times)
			case "first":
				var n int
				var name string
				if _, err := fmt.Sscanf(m[3], "%d of %s", &n, &name); err != nil || n > len(f.variables[name]) {
					panic(text + " is not <first N of NAME>")
				}
				return f.variables[name][:n]
			case "byte":
				b, err := strconv.ParseUint(m[3], 16, 8)
				if err != nil {
					panic(text + " is not a byte")
				}
				return string([]byte{byte(b)})
			}
			if value, ok := f.variables[m[1]]; ok {
				return value
			}
			return text // the value is missing because an earlier case failed or the file is wrong; the name stays visible
		})
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = f.expand(v[i])
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for k := range v {
			key, _ := f.expand(k).(string)
			out[key] = f.expand(v[k])
		}
		return out
	case int, int64, uint64, float64: // decodeJSON returns a json.Number too
		b, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		return json.Number(b)
	}
	return v
}

// expandToJSON returns the expected value as decoded JSON. For a map that is nil, it returns an empty object.
func (f *testFleet) expandToJSON(v any) any {
	if m, ok := v.(map[string]any); ok && m == nil {
		v = map[string]any{}
	}
	data, err := json.Marshal(f.expand(v))
	if err != nil {
		panic(err)
	}
	out, err := decodeJSON(data)
	if err != nil {
		panic(err)
	}
	return out
}

// saveParts saves parts of an answer under names. save has the path of each part, like "task.id" or "events.0.cursor".
func (f *testFleet) saveParts(save map[string]string, answer any) error {
	for _, name := range slices.Sorted(maps.Keys(save)) {
		v := answer
		for part := range strings.SplitSeq(save[name], ".") {
			if list, ok := v.([]any); ok {
				i, err := strconv.Atoi(part)
				if err != nil || i >= len(list) {
					return fmt.Errorf("there is no %s in %s", save[name], shortJSON(answer))
				}
				v = list[i]
				continue
			}
			m, _ := v.(map[string]any)
			v = m[part]
		}
		text, ok := v.(string)
		if !ok {
			return fmt.Errorf("there is no text %s in %s", save[name], shortJSON(answer))
		}
		f.variables[name] = text
	}
	return nil
}

// changeAll makes the changes to the place, in the alphabetical order of their names.
func (f *testFleet) changeAll(ctx context.Context, place *fake.Place, changes map[string]any) error {
	for _, what := range slices.Sorted(maps.Keys(changes)) {
		if err := f.change(ctx, place, what, f.expand(changes[what])); err != nil {
			return fmt.Errorf("world %s: %w", what, err)
		}
	}
	return nil
}

// change makes one change to the place directly, as if it happened there without a call of Fleet.
func (f *testFleet) change(ctx context.Context, place *fake.Place, what string, v any) error {
	args := stringList(v)
	switch what {
	case "stop_workspace":
		place.StopWorkspace(args[0])
	case "add_workspace": // a workspace that Fleet did not create
		place.AddWorkspace(fleet.Workspace{Name: args[0], Owner: "somebody"})
	case "start_workspace":
		place.StartWorkspace(args[0])
	case "delete_workspace":
		place.DeleteWorkspace(args[0])
	case "make_unhealthy":
		place.MakeUnhealthy(args[0], args[1])
	case "make_healthy":
		place.MakeHealthy(args[0])
	case "new_version": // a version of a project with these roles; "NAME!" stands for a required parameter with the options eu and us
		var roles []fleet.Role
		var parameters []fleet.Parameter
		for _, name := range args[1:] {
			if name, required := strings.CutSuffix(name, "!"); required {
				parameters = append(parameters, fleet.Parameter{Name: name, Type: fleet.ParameterText, Description: "Where it runs", Required: true, Options: []string{"eu", "us"}})
				continue
			}
			roles = append(roles, fleet.Role{Name: name})
		}
		place.NewVersion(args[0], roles, parameters)
	case "set_host": // the links of a workspace, and the times of its host
		at := time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC)
		place.SetHost(args[0], fleet.HostFacts{
			Links: []fleet.Link{{Name: "Workspace", URL: args[1]}}, StopsAt: at, DormantAt: at.Add(-time.Hour), DeletionAt: at.Add(time.Hour),
		})
	case "give_away":
		place.GiveAway(args[0], args[1])
	case "set_role":
		w, _ := place.Workspace(args[0])
		place.SetDetails(args[0], w.Owner, args[1], w.Spec, w.Reason)
	case "fail_build":
		place.FailBuild(args[0], args[1])
	case "hold_builds":
		f.gates["builds"] = place.HoldBuilds()
	case "hold_sends":
		f.gates["sends"] = place.Hold(fake.Send)
	case "hold_interrupts":
		f.gates["interrupts"] = place.Hold(fake.Interrupt)
	case "hold_runs":
		f.gates["runs"] = place.HoldRuns()
	case "open": // opens a gate
		f.gates[args[0]].Open()
	case "set_metadata":
		place.SetMetadata(args[0], args[1], args[2])
	case "set_kept":
		place.KeepOnDelete(args[0], args[1])
	case "append_log":
		place.AppendLog(args[0], args[1:]...)
	case "spec_is_task": // replaces all projects with this one; must be the first change of the test
		place.SetProjects(fake.Project{Project: fleet.Project{Name: args[0], SpecIsTask: true}})
	case "release":
		place.Release(args[0])
	case "reached":
		return awaitSignal(ctx, place.Reached(args[0]))
	case "crash_run":
		place.CrashRun(args[0])
	case "unavailable": // until "available"
		for _, m := range args {
			place.Fail(fake.Method(m), 1<<30, fleet.Errorf(fleet.ReasonBackendUnavailable, "the agents' host does not answer; try again"))
		}
	case "available": // ends "unavailable"
		for _, m := range args {
			place.Fail(fake.Method(m), 0, nil)
		}
	case "refuse": // once, with a reason
		place.Fail(fake.Method(args[0]), 1, fleet.Errorf(fleet.Reason(args[1]), "%s", args[2]))
	case "break": // once, with an internal error
		place.Fail(fake.Method(args[0]), 1, errors.New("dial 10.0.0.7: password hunter2 refused"))
	default:
		return errors.New("unknown change")
	}
	return nil
}

func awaitSignal(ctx context.Context, done <-chan struct{}) error {
	ctx, cancel := context.WithTimeout(ctx, waittest.Limit)
	defer cancel()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// stringList converts a value, or a list of values, to a list of texts.
func stringList(v any) []string {
	list, ok := v.([]any)
	if !ok {
		list = []any{v}
	}
	out := make([]string, len(list))
	for i := range list {
		out[i] = fmt.Sprint(list[i])
	}
	return out
}
