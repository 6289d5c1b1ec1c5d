package remote

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"

	runnerv1 "fleet/gen/fleet/runner/v1"
	"fleet/internal/fleet"
)

// fill sets every field of what v points to that is not named in without.
func fill(t *testing.T, v reflect.Value, without ...string) {
	switch v.Kind() {
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(1234567890, 5).UTC()))
			return
		}
	fields:
		for i := range v.NumField() {
			for _, name := range without {
				if v.Type().Field(i).Name == name {
					continue fields
				}
			}
			fill(t, v.Field(i), without...)
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), without...)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(t, v.Index(i), without...)
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
		t.Fatalf("fill cannot set a %s: teach it to", v.Type())
	}
}

// TestEveryFieldCrosses fails when a field of the port is added that the wire does not carry.
func TestEveryFieldCrosses(t *testing.T) {
	var r fleet.Run
	fill(t, reflect.ValueOf(&r).Elem(), "Report", "CreatedAt", "GivenAt", "Refused", "RefusedText")
	for i := range r.Messages {
		r.Messages[i].TaskID = r.TaskID
	}
	require.Equal(t, r, runFrom(cross(t, runTo(r), &runnerv1.Run{})))

	var o fleet.Output
	fill(t, reflect.ValueOf(&o).Elem(), "TaskID", "AgentUID", "AgentName", "Owner", "GivenAt") // the reconciler sets these of a question
	require.Equal(t, o, outputFrom(cross(t, outputTo(o), &runnerv1.Output{})))

	var end fleet.Outcome
	require.Nil(t, outcomeFrom(cross(t, outcomeTo(end), &runnerv1.Outcome{})).Payload)
	fill(t, reflect.ValueOf(&end).Elem())
	require.Equal(t, end, outcomeFrom(cross(t, outcomeTo(end), &runnerv1.Outcome{})))
	end.Payload = []byte{}
	require.Equal(t, end, outcomeFrom(cross(t, outcomeTo(end), &runnerv1.Outcome{})))
	for status := range statuses {
		end.Status = status
		require.Equal(t, end, outcomeFrom(cross(t, outcomeTo(end), &runnerv1.Outcome{})))
	}
}

// cross sends a message over the wire.
func cross[M proto.Message](t *testing.T, m, to M) M {
	t.Helper()
	b, err := proto.Marshal(m)
	require.NoError(t, err)
	require.NoError(t, proto.Unmarshal(b, to))
	return to
}
