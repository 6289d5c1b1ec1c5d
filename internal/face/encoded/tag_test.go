package encoded_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/types/known/timestamppb"

	fleetv1 "fleet/gen/fleet/v1"
	"fleet/internal/face/encoded"
)

func TestTag(t *testing.T) {
	t.Parallel()
	const base = `{"agents":[{"name":"a"}],"observed_at":"2026-01-02T03:04:05Z","places":[{"ok":true,"observed_at":"2026-01-02T03:04:05Z"}]}`
	tag := encoded.Tag([]byte(base))
	require.Regexp(t, `^W/"[0-9a-f]{32}"$`, tag)
	for body, same := range map[string]bool{
		base: true,
		`{"agents":[{"name":"a"}],"observed_at":"2027-01-02T03:04:05.5Z","places":[{"ok":true,"observed_at":"2026-11-02T03:04:05Z"}]}`:       true,
		`{"agents":[{"name":"a"}],"observed_at":null,"places":[{"ok":true,"observed_at":"2026-01-02T03:04:05Z"}]}`:                           false,
		`{"agents":[{"name":"a"}],"observed_at":"2026-01-02T03:04:05Z","places":[{"ok":false,"observed_at":"2026-01-02T03:04:05Z"}]}`:        false,
		`{"agents":[{"name":"b"}],"observed_at":"2026-01-02T03:04:05Z","places":[{"ok":true,"observed_at":"2026-01-02T03:04:05Z"}]}`:         false,
		`{"agents":[{"name":"\"observed_at\":\"x"}],"observed_at":"2026-01-02T03:04:05Z","places":[{"ok":true,"observed_at":"2026-01-02"}]}`: false,
		`{"observed_at":"unterminated`: false,
		``:                             false,
	} {
		require.Equal(t, same, encoded.Tag([]byte(body)) == tag, body)
	}
	// A label can have the key observed_at. Brackets in texts do not hide it, and the fields after it are found.
	const labelled = `{"agents":[{"name":"a","text":"]}\"}]","labels":{"observed_at":"%s","z":"\"[{"}}],"observed_at":"%s","places":[{"observed_at":"%[2]s"}]}`
	labels := func(label, at string) string { return encoded.Tag(fmt.Appendf(nil, labelled, label, at)) }
	tag = labels("2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z")
	require.Equal(t, tag, labels("2026-01-02T03:04:05Z", "2027-01-02T03:04:05Z"))
	require.NotEqual(t, tag, labels("2027-01-02T03:04:05Z", "2026-01-02T03:04:05Z"), "a label that has changed must change the tag")
	require.NotEqual(t, labels(`\"{`, ""), labels(`\"[[`, ""))
	require.Equal(t, labels(`\"{[`, ""), labels(`\"{[`, "2026-01-02T03:04:05Z"))
	require.NotEqual(t, encoded.Tag([]byte(`{"agent":{"labels":{"observed_at":"x"}}}`)), encoded.Tag([]byte(`{"agent":{"labels":{"observed_at":"y"}}}`)))
	require.NotEqual(t, encoded.Tag([]byte(`{"name":"\"observed_at\":\"x\""}`)), encoded.Tag([]byte(`{"name":"\"observed_at\":\"y\""}`)), "a text that looks like the field observed_at must change the tag")
}

func TestTagOfResponse(t *testing.T) {
	t.Parallel()
	a := response()
	tagOf := func(a *encoded.Response) string {
		j, err := a.JSON()
		require.NoError(t, err)
		require.Equal(t, encoded.Tag(j.Line), j.Tag())
		return j.Tag()
	}
	tag := tagOf(a)

	live := fullMessage()
	live.Agents, live.TotalCount, live.NextCursor, live.ObservedAt = nil, 0, nil, &timestamppb.Timestamp{Seconds: 99}
	require.Equal(t, tag, tagOf(&encoded.Response{Part: a.Part, Live: live}), "the tag must stay the same if only the times of the last listing differ")
	require.NotEqual(t, tag, tagOf(&encoded.Response{Part: a.Part, Live: &fleetv1.ListAgentsResponse{}}))
}
