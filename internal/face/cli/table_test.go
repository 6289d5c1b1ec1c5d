package cli

import (
	"strings"
	"testing"

	"github.com/mattn/go-runewidth"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"

	fleetv1 "fleet/gen/fleet/v1"
)

func TestTable(t *testing.T) {
	t.Parallel()
	columns := []column{{"NAME", "name"}, {"STATUS", "status"}, {"OWNER", nil}, {"TASK", "current_task"}, {"TWICE", func(a *fleetv1.AgentSummary) int { return 2 * len(a.GetName()) }}}
	s := &session{program: newProgram(Deps{})}
	g := s.tableOf((&fleetv1.AgentSummary{}).ProtoReflect().Descriptor(), []proto.Message{
		&fleetv1.AgentSummary{Name: "papi", Status: fleetv1.Agent_busy, CurrentTask: wrapperspb.String("one\ntwo\x1b[2J")}, &fleetv1.AgentSummary{Name: "日本", Status: fleetv1.Agent_idle},
	}, columns)
	require.Equal(t, "NAME  STATUS  TASK        TWICE\npapi  busy    one two[2J  8\n日本  idle    -           12\n", g.render(0, false))
	for line := range strings.Lines(g.render(37, false)) {
		require.LessOrEqual(t, runewidth.StringWidth(strings.TrimSpace(line)), 37)
	}
	require.Contains(t, g.render(0, true), "\x1b[33mbusy\x1b[0m    one")
	require.Panics(t, func() { printList[*fleetv1.AgentSummary](s, nil, "", column{"NAME", "nome"}) })
}

func TestTablesFit(t *testing.T) {
	t.Parallel()
	row := func(texts ...string) (cells []cell) {
		for _, text := range texts {
			cells = append(cells, cell{text: text})
		}
		return cells
	}
	newTable := func() *table {
		return &table{headings: []string{"NAME", "DESCRIPTION", "KIND", "CAPABILITIES"}, rows: [][]cell{
			row("claude", strings.Repeat("d", 40), "api", strings.Repeat("c", 50)), row("shout", "program", "cli", "streaming"),
		}}
	}
	for width, want := range map[int]struct{ head, left string }{
		0:   {"NAME DESCRIPTION KIND CAPABILITIES", ""},
		120: {"NAME DESCRIPTION KIND CAPABILITIES", ""},
		80:  {"NAME DESCRIPTION KIND CAPABILITIES", ""},
		70:  {"NAME DESCRIPTION KIND CAPABILITIES", ""},
		60:  {"NAME KIND CAPABILITIES", "DESCRIPTION"},
		24:  {"NAME CAPABILITIES", "DESCRIPTION KIND"},
	} {
		g := newTable()
		removed := g.fit(width)
		require.Equal(t, want.head, strings.Join(g.headings, " "), "%d", width)
		require.Equal(t, want.left, strings.Join(removed, " "), "%d", width)
		for line := range strings.Lines(g.render(width, false)) {
			if width > 0 {
				require.LessOrEqual(t, len([]rune(strings.TrimRight(line, "\n"))), width)
			}
		}
	}
	g := &table{headings: []string{"NAME", "DESCRIPTION", "KIND"}, rows: [][]cell{row("a", strings.Repeat("d", 40), "api")}}
	require.Empty(t, g.fit(0))
	require.Equal(t, []string{"NAME", "KIND", "DESCRIPTION"}, g.headings)
	require.Equal(t, "api", g.rows[0][1].text)

	for width, want := range map[int]string{
		0: "ID STATUS STARTED TITLE REASON", 130: "ID STATUS STARTED TITLE REASON", 70: "ID STATUS STARTED REASON", 60: "ID STATUS REASON", 40: "ID REASON",
	} {
		g := &table{headings: []string{"ID", "STATUS", "STARTED", "REASON", "TITLE"}, importantHeadings: []string{"STATUS", "REASON"}, rows: [][]cell{
			row(strings.Repeat("i", 36), "stopped", "2m ago", strings.Repeat("r", 40), strings.Repeat("t", 50)),
		}}
		g.fit(width)
		require.Equal(t, want, strings.Join(g.headings, " "), "%d", width)
	}
}
