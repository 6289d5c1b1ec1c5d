package cli

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/mattn/go-runewidth"
	"github.com/spf13/cobra"
	"google.golang.org/protobuf/proto"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newWatch() *cobra.Command {
	req := &fleetv1.WatchFleetRequest{}
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Print what happens in the fleet, one event a line",
		Long: `Print the events of the fleet in the order in which they happened: what agents and
tasks do, and what they write. Without --follow, the command prints the log and
ends. With --follow it stays, even if the connection breaks. It ends with Ctrl-C, or
when the task of --task has ended.

The first column is the cursor of an event: "--cursor CURSOR" continues after it, and
"--cursor now" leaves out what has happened so far. With -v, results of tools and
other details are printed too. With -o json, each event is one line of JSON.`,
		Example: `  fleet watch --follow --cursor now
  fleet watch --agent papi
  fleet watch --task 3f2a... --follow
  fleet watch --follow -o json | jq -r 'select(.type == "task_ended") | .task_id'`,
		RunE: p.action(func(ctx context.Context, s *session, _ []string) error {
			req.Details = s.verbose
			return s.watch(ctx, req)
		}),
	}
	f := cmd.Flags()
	f.StringVar(&req.AgentName, "agent", "", "only events of `AGENT`, which may not exist yet")
	f.StringVar(&req.TaskId, "task", "", "only events of the task with `ID`")
	addSelector(cmd, &req.Selector, "events of tasks and agents")
	f.StringVar(&req.Cursor, "cursor", "", `continue after the event at `+"`CURSOR`"+`, or "now" (default from the oldest event)`)
	f.BoolVarP(&req.Follow, "follow", "f", false, "stay, and print events as they happen")
	return cmd
}

// watch prints the events that the request selects, and then a hint how to continue.
func (s *session) watch(ctx context.Context, req *fleetv1.WatchFleetRequest) error {
	if req.GetCursor() == "now" && req.GetFollow() {
		req.Cursor = s.latestCursor(ctx) // a position to return to if the connection breaks before the first event
	}
	f := s.newEventFeed(req)
	if req.GetFollow() {
		f.maxOutage = -1 // a watcher waits until the server is back
	}
	ended := false
	err := f.run(ctx, func(e *fleetv1.Event) error {
		ended = ended || e.GetType() == fleetv1.Event_task_ended
		if err := s.printEvent(e); err != nil {
			return err
		}
		return s.screen.firstWriteErr()
	}, func() (bool, error) {
		if req.GetTaskId() == "" {
			return false, nil
		}
		if ended {
			return true, nil
		}
		return s.hasEndedFunc(ctx, req.GetTaskId())()
	})
	if reasonOf(err) == fleetv1.ErrorReason_INVALID_ARGUMENT.String() { // the cursor may be invalid
		return err
	}
	if cursor := req.GetCursor(); cursor != "" && cursor != "now" && (!ended || req.GetTaskId() == "") {
		s.hint("Continue from here: fleet watch --cursor %s%s", cursor, filterFlags(req))
	}
	if errors.Is(err, errInterrupted) {
		return &failure{code: ExitInterrupted, reason: errInterrupted.reason} // the usual way to end it
	}
	return err
}

// filterFlags returns the flags that select the events of the request, each after a space.
func filterFlags(req *fleetv1.WatchFleetRequest) string {
	var b strings.Builder
	if req.GetAgentName() != "" {
		b.WriteString(" --agent " + req.GetAgentName())
	}
	if req.GetTaskId() != "" {
		b.WriteString(" --task " + req.GetTaskId())
	}
	if req.GetSelector() != "" {
		b.WriteString(" --selector '" + req.GetSelector() + "'")
	}
	return b.String()
}

func (s *session) printEvent(e *fleetv1.Event) error {
	if s.output.forPeople() {
		s.screen.print(s.eventLine(e) + "\n")
		return nil
	}
	return s.printStreamItem(e)
}

// printStreamItem prints one message of a list or stream as a line of JSON or, with -o yaml, as a YAML document.
func (s *session) printStreamItem(m proto.Message) error {
	text, err := jsonLine(m)
	if s.output == yamlFormat && err == nil {
		text, err = s.output.document([]byte(text))
		text = "---\n" + text
	}
	if err != nil {
		return err
	}
	s.screen.print(text)
	return nil
}

// eventLine formats an event as one line. It writes each line break in the event's text as a backslash and an n.
func (s *session) eventLine(e *fleetv1.Event) string {
	t := s.screen.outTerminal
	colors := t.hasColors(s.noColor)
	at := e.GetTime().AsTime().UTC().Format(time.RFC3339)
	text := strings.TrimRight(e.GetText(), "\r\n")
	text = printable(strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\n", `\n`))
	switch e.GetType() {
	case fleetv1.Event_task_output, fleetv1.Event_task_more_output, fleetv1.Event_task_step, fleetv1.Event_task_detail, fleetv1.Event_task_message, fleetv1.Event_task_answer, fleetv1.Event_task_check: // they change no status
	default:
		text = strings.TrimSpace(e.GetStatus() + " " + text)
	}
	subject := printable(e.GetAgentName())
	if e.GetTaskId() != "" && s.verbose {
		subject += " " + e.GetTaskId()
	}
	head := pad(e.GetCursor(), 6) + "  " + at + "  " + pad(subject, 10) + "  "
	kind := pad(e.GetType().String(), 13)
	if w := t.width(); w > 0 {
		text = truncate(text, max(12, w-runewidth.StringWidth(head)-runewidth.StringWidth(kind)-2))
	}
	return paint(colors, dim, head) + paint(colors, eventColor(e), kind) + "  " + text
}

// eventColor returns the colour of the event's type or, if it has none, of the event's status.
func eventColor(e *fleetv1.Event) color {
	if c := colorOf(e.GetType()); c != defaultColor {
		return c
	}
	return fieldColor(e.ProtoReflect().Descriptor().Fields().ByName("status"), e.GetStatus())
}

// pad fills a text with spaces up to a width in columns.
func pad(text string, width int) string {
	return text + strings.Repeat(" ", max(0, width-runewidth.StringWidth(text)))
}
