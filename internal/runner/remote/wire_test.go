package remote

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	runnerv1 "fleet/gen/fleet/runner/v1"
	"fleet/internal/fleet"
)

// fill sets every field of v, except the fields named in without. The test fails if v has no field with one of these names.
func fill(t *testing.T, v reflect.Value, without ...string) {
	skipped := make(map[string]bool, len(without))
	for _, name := range without {
		skipped[name] = false
	}
	fillValue(t, v, skipped)
	for name, met := range skipped {
		require.True(t, met, "%s has no field %s", v.Type(), name)
	}
}

// fillValue sets every field of v, except those that are named in skipped, and sets the entries of skipped that it met to true.
func fillValue(t *testing.T, v reflect.Value, skipped map[string]bool) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(1234567890, 5).UTC()))
			return
		}
		for i := range v.NumField() {
			field := v.Type().Field(i)
			if !field.IsExported() { // internal to the core
				continue
			}
			if _, ok := skipped[field.Name]; ok {
				skipped[field.Name] = true
				continue
			}
			fillValue(t, v.Field(i), skipped)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillValue(t, v.Elem(), skipped)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fillValue(t, v.Index(i), skipped)
		}
	case reflect.String:
		v.SetString("text of " + v.Type().Name())
		if v.Type() == reflect.TypeFor[fleet.TaskStatus]() {
			v.SetString(string(fleet.TaskStopped))
		}
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64, reflect.Int32:
		v.SetInt(42)
	case reflect.Uint8:
		v.SetUint(7)
	case reflect.Float64:
		v.SetFloat(1.5)
	default:
		t.Fatalf("fillValue cannot set a %s: add a case for it", v.Type())
	}
}

// TestWireHasEveryField fails if a message of the protocol lacks a field of the type that it carries.
func TestWireHasEveryField(t *testing.T) {
	var r fleet.Run
	// Fields that are not on the wire: SendRequest itself says whether a message must be confirmed, terminals and allowances exist only
	// on this machine, and programs do not know which tasks their own tasks continue.
	fill(t, reflect.ValueOf(&r).Elem(), "CreatedAt", "DeliveredAt", "RefusalReason", "RefusalText", "FromTask", "PromptTry", "Attached", "Allowance", "Confirmed", "Continues")
	r.Continues = true // only Options.Continues is not on the wire
	for i := range r.Messages {
		r.Messages[i].TaskID = r.TaskID
	}
	for i, a := range r.Attachments {
		r.Attachments[i].Size = len(a.Content)
	}
	r.Options.Attachments = len(r.Attachments)
	require.Equal(t, r, runFromProto(roundTrip(t, runToProto(r), &runnerv1.Run{})))

	var o fleet.Output
	fill(t, reflect.ValueOf(&o).Elem(), "TaskID", "AgentUID", "AgentName", "Owner", "DeliveredAt") // the reconciler sets these fields of a question
	require.Equal(t, o, outputFromProto(roundTrip(t, outputToProto(o), &runnerv1.Output{})))

	var outcome fleet.Outcome
	require.Nil(t, outcomeFromProto(roundTrip(t, outcomeToProto(outcome), &runnerv1.Outcome{})).Payload)
	fill(t, reflect.ValueOf(&outcome).Elem())
	require.Equal(t, outcome, outcomeFromProto(roundTrip(t, outcomeToProto(outcome), &runnerv1.Outcome{})))
	outcome.Payload = []byte{}
	require.Equal(t, outcome, outcomeFromProto(roundTrip(t, outcomeToProto(outcome), &runnerv1.Outcome{})))
	for status := range statuses {
		outcome.Status = status
		require.Equal(t, outcome, outcomeFromProto(roundTrip(t, outcomeToProto(outcome), &runnerv1.Outcome{})))
	}
}

// TestWireHasEveryFieldOfChanges is TestWireHasEveryField for changes, checks and results of checks.
func TestWireHasEveryFieldOfChanges(t *testing.T) {
	require.Nil(t, changesFromProto(changesToProto(nil)))
	var c fleet.Changes
	fill(t, reflect.ValueOf(&c).Elem(), "Temporary", "Tries") // used only in the core
	require.Equal(t, &c, changesFromProto(roundTrip(t, changesToProto(&c), &runnerv1.Changes{})))
	var check fleet.Check
	fill(t, reflect.ValueOf(&check).Elem())
	require.Equal(t, check, checkFromProto(roundTrip(t, checkToProto(check), &runnerv1.Check{})))
	var res fleet.CheckResult
	require.Nil(t, checkResultFromProto(roundTrip(t, checkResultToProto(res), &runnerv1.CheckResult{})).ExitCode)
	fill(t, reflect.ValueOf(&res).Elem())
	res.Status = fleet.CheckTimedOut
	require.Equal(t, res, checkResultFromProto(roundTrip(t, checkResultToProto(res), &runnerv1.CheckResult{})))
}

// TestLimits checks the limits for data of a program that has replaced the runner.
func TestLimits(t *testing.T) {
	long := strings.Repeat("x", 1<<20)
	p := &runnerv1.Changes{Branch: long, Problem: long}
	for range fleet.MaxChangedFiles + 1 {
		p.List = append(p.List, &runnerv1.FileChange{Path: "x"})
		p.LeftOut = append(p.LeftOut, "x")
	}
	p.List[0].Path, p.LeftOut[0] = long, long
	c := changesFromProto(p)
	require.Len(t, c.FileChanges, fleet.MaxChangedFiles)
	require.Len(t, c.LeftOut, fleet.MaxLeftOut)
	for _, text := range []string{c.Branch, c.Problem, c.FileChanges[0].Path, c.LeftOut[0]} {
		require.Len(t, text, maxText)
	}
	res := checkResultFromProto(&runnerv1.CheckResult{Status: "splendid", Output: long + "end", Reason: long})
	require.Equal(t, fleet.CheckFailed, res.Status)
	require.Len(t, res.Output, fleet.MaxCheckOutput)
	require.True(t, strings.HasSuffix(res.Output, "xend"))
	require.True(t, res.Truncated)
}

// TestInvalidUTF8 checks that invalid UTF-8 is replaced. Otherwise the message could not be sent, and Fleet would retry
// forever.
func TestInvalidUTF8(t *testing.T) {
	const bad, good = "a\xffb", "a\uFFFDb"
	o := outcomeFromProto(roundTrip(t, outcomeToProto(fleet.Outcome{Summary: bad, Reason: bad, Usage: fleet.Usage{Model: bad}}), &runnerv1.Outcome{}))
	require.Equal(t, []string{good, good, good}, []string{o.Summary, o.Reason, o.Usage.Model})
	q := questionFromProto(roundTrip(t, questionToProto(fleet.Question{Text: bad, Tool: bad}), &runnerv1.Question{}))
	require.Equal(t, []string{good, good}, []string{q.Text, q.Tool})
	c := fleet.Changes{Branch: bad, FileChanges: []fleet.FileChange{{Path: bad, From: bad}}, LeftOut: []string{bad}, Problem: bad}
	require.Equal(t, &fleet.Changes{Branch: good, FileChanges: []fleet.FileChange{{Path: good, From: good}}, LeftOut: []string{good}, Problem: good},
		changesFromProto(roundTrip(t, changesToProto(&c), &runnerv1.Changes{})))
	res := checkResultFromProto(roundTrip(t, checkResultToProto(fleet.CheckResult{Status: fleet.CheckFailed, Output: bad, Reason: bad}), &runnerv1.CheckResult{}))
	require.Equal(t, []string{good, good}, []string{res.Output, res.Reason})
}

// roundTrip encodes m, decodes it into to, and returns to.
func roundTrip[M proto.Message](t *testing.T, m, to M) M {
	t.Helper()
	b, err := proto.Marshal(m)
	require.NoError(t, err)
	require.NoError(t, proto.Unmarshal(b, to))
	return to
}
