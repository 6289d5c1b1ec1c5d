package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/structpb"

	fleetv1 "fleet/gen/fleet/v1"
)

func (p *program) newTaskShow() *cobra.Command {
	var payload bool
	cmd := &cobra.Command{
		Use:   "show ID|AGENT",
		Short: "Show one task, or its payload",
		Long: `Show everything about one task, or about the newest task of an agent: its description,
result, times and cost.

With --payload, only the payload of the task is printed, byte for byte: its whole
result. With -o json or yaml, it is a field of the task instead; payload_encoding is
"base64" if the payload is not text in UTF-8.

A payload that was longer than the server's max_output lacks its middle. Standard
error says how much is missing, and so do payload_gap_offset and payload_gap_size.
"fleet task download" writes a large payload to a file.`,
		Example: `  fleet task show 3f2a...
  fleet task show papi
  fleet task show 3f2a... --payload > result.txt
  fleet task show 3f2a... --payload -o json`,
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			onlyPayload := payload && s.output.forPeople()
			var resp *fleetv1.ShowTaskResponse
			if err := s.withTask(ctx, args[0], func(id string) (err error) {
				resp, err = s.fleet.ShowTask(ctx, &fleetv1.ShowTaskRequest{TaskId: id, IncludePayload: payload && !onlyPayload})
				return err
			}); err != nil {
				return err
			}
			t := resp.GetTask()
			if !onlyPayload {
				return s.print(resp, nil, func() { s.showTask(t) })
			}
			if err := s.save((&taskDownload{session: s, id: t.GetId()}).reader(ctx, 0), ""); err != nil {
				return err
			}
			if gap := gapText(t); gap != "" {
				s.note("The payload is not complete: %s.", gap)
			}
			return nil
		}),
	}
	cmd.Flags().BoolVar(&payload, "payload", false, "print the payload")
	return cmd
}

// terminalNote tells people what to expect of a result that was read from a terminal.
const terminalNote = "the agent's terminal: lines may be broken, and pieces of the screen may be in the text"

func (s *session) showTask(t *fleetv1.TaskDetail) {
	if s.quiet {
		s.screen.print(printable(t.GetId()) + "\n")
		return
	}
	o := t.GetOptions()
	lines := []cardLine{
		{"Id", t.GetId(), ""},
		{"Agent", t.GetAgentName(), ""},
		{"Status", t.GetStatus(), t.GetReason()},
		{"Waits", firstWaitText(t.GetQueue().GetWaits()), "fleet queue why " + t.GetId()},
		{"Waiting", valueIf(t.GetWaiting(), cell{`for an answer, see "fleet questions --task ` + t.GetId() + `"`, yellow}), ""},
		{"Stalled", valueIf(t.GetStalled(), cell{"yes", yellow}), t.GetLastStep()},
		{"Collecting", valueIf(t.GetCollecting(), "its run has ended, and its work is copied"), ""},
		{"Conversation", valueIf(t.GetConversationLost() != "", "began anew: "+t.GetConversationLost()), ""},
		{"Options", optionsText(o), ""},
		{"Labels", labelsText(t.GetLabels()), ""},
		{"Retry of", t.GetRetryOf(), ""},
		{"Delegated by", t.GetParentTaskId(), ""},
		{"Delegated", valueIf(t.GetDelegated() > 0, fmt.Sprintf("%s, %s with them", countText(t.GetDelegated(), "task"), dollarsText(t.GetTreeCostUsd()))), "fleet task tree " + t.GetId()},
		{"Read from", valueIf(t.GetFromTerminal(), terminalNote), ""},
		{"Source", t.GetSource(), ""},
		{"Owner", t.GetOwner(), ""},
		{"Created", t.GetCreatedAt(), ""},
		{"Started", t.GetStartedAt(), ""},
		{"Ended", t.GetCompletedAt(), ""},
		{"Took", s.elapsedText(t.GetStartedAt(), t.GetCompletedAt()), ""},
		{"Exit code", valueIf(t.ExitCode != nil, fmt.Sprint(t.GetExitCode())), ""},
		{"Turns", valueIf(t.GetTurns() > 0, fmt.Sprint(t.GetTurns())), ""},
		{"Cost", costWithBasis(t.GetCostUsd(), t.GetCostBasis()), ""},
		{"Context", contextText(t), ""},
		{"Denied", valueIf(t.GetDeniedCalls() > 0, countText(t.GetDeniedCalls(), "tool call")), "fleet task steps " + t.GetId() + " --kind denied"},
	}
	if u := t.GetUsage(); u.GetInputTokens()+u.GetOutputTokens() > 0 {
		lines = append(lines, cardLine{"Tokens", fmt.Sprintf("%d in, %d out", u.GetInputTokens(), u.GetOutputTokens()), ""})
	}
	if t.GetPayloadSize() > 0 {
		lines = append(lines, cardLine{"Payload", sizeText(t.GetPayloadSize()), "fleet task show " + t.GetId() + " --payload"}, cardLine{"Missing", gapText(t), ""})
	}
	lines = append(lines, checkLines(t)...)
	lines = append(lines,
		cardLine{"Changes", changesText(t.GetChanges()), ""},
	)
	lines = append(lines, landingLines(t.GetLanding())...)
	lines = append(lines,
		cardLine{"Goes on with", t.GetContinues(), ""},
		cardLine{"Output", objectText(t.GetOutput()), ""},
		cardLine{"Summary", valueIf(!isSummaryRedundant(t), t.GetSummary()), ""},
		cardLine{"Description", t.GetDescription(), ""},
		cardLine{"Last output", t.GetPreview(), ""},
	)
	s.screen.print(s.card(lines...))
}

// firstWaitText returns the first reason why the task is pending, or "" if it is not pending.
func firstWaitText(waits []*fleetv1.Wait) string {
	if len(waits) == 0 {
		return ""
	}
	return printable(waits[0].GetText())
}

// contextText returns how much of the model's context window the task uses. It returns "" if that is not known.
func contextText(t *fleetv1.TaskDetail) string {
	n, window := t.GetContextTokens(), t.GetContextWindow()
	switch {
	case n <= 0:
		return ""
	case window <= 0:
		return fmt.Sprintf("%d tokens", n)
	}
	return fmt.Sprintf("%d tokens of %d (%d%%)", n, window, 100*int64(n)/int64(window))
}

// checkLines returns the lines of a card for the task's checks: the result of each check, then the output of those that did not pass.
func checkLines(t *fleetv1.TaskDetail) (lines []cardLine) {
	if tries := t.GetChecks().GetTries(); tries > 1 {
		lines = append(lines, cardLine{"Tries", fmt.Sprint(tries), ""})
	}
	var outputs []cardLine
	for _, c := range t.GetChecks().GetResults() {
		command, end := oneLine(c.GetCommand()), ""
		if c.GetStatus() != fleetv1.TaskCheck_passed {
			outputs = append(outputs, cardLine{"Check output", "$ " + command + "\n" + c.GetOutput(), ""})
			if end = c.GetReason(); c.ExitCode != nil {
				end = fmt.Sprintf("exit code %d", c.GetExitCode())
			}
		}
		lines = append(lines, cardLine{"Check", cell{c.GetStatus().String() + inParentheses(end) + ": " + command, colorOf(c.GetStatus())}, ""})
	}
	return append(lines, outputs...)
}

// gapText describes the missing part of the task's payload. It returns "" if the payload is complete.
func gapText(t *fleetv1.TaskDetail) string {
	if t.GetPayloadGapSize() <= 0 {
		return ""
	}
	return fmt.Sprintf("%s after the first %s were not kept", sizeText(t.GetPayloadGapSize()), sizeText(t.GetPayloadGapOffset()))
}

// optionsText returns the options of a task in one line.
func optionsText(o *fleetv1.TaskOptions) string {
	if o == nil {
		return ""
	}
	var parts []string
	add := func(name, value string) { parts = append(parts, name+" "+printable(value)) }
	if o.Model != nil {
		add("model", o.GetModel())
	}
	if o.Effort != nil {
		add("effort", o.GetEffort())
	}
	if o.MaxTurns != nil {
		add("max turns", fmt.Sprint(o.GetMaxTurns()))
	}
	if o.MaxCostUsd != nil {
		add("max cost", fmt.Sprintf("$%g", o.GetMaxCostUsd()))
	}
	if o.AppendSystemPrompt != nil {
		add("system prompt", oneLine(o.GetAppendSystemPrompt()))
	}
	if o.OutputSchema != nil {
		parts = append(parts, "output schema")
	}
	for _, a := range o.GetAttachments() {
		add("attachment", a.GetName())
	}
	return strings.Join(parts, ", ")
}

// objectText returns the object as indented JSON, or "" if there is none.
func objectText(o *structpb.Struct) string {
	if o == nil {
		return ""
	}
	b, err := json.MarshalIndent(o.AsMap(), "", "  ")
	if err != nil {
		return ""
	}
	return string(b)
}

// isSummaryRedundant reports whether the summary of a task that has not completed only repeats its reason or its description. The
// summary of a completed task is always shown.
func isSummaryRedundant(t *fleetv1.TaskDetail) bool {
	summary := t.GetSummary()
	return t.GetStatus() != fleetv1.Task_completed && (strings.Contains(t.GetReason(), summary) || strings.HasPrefix(t.GetDescription(), summary))
}
