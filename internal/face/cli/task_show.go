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
		Use:   "show ID",
		Short: "Show one task, or its payload",
		Long: `Show everything about one task: its description, result, times and cost.

With --payload, only the payload of the task is printed, byte for byte: its whole
result. With -o json or yaml, it is a field of the task instead; payload_encoding is
"base64" if the payload is not text in UTF-8.

A payload that was longer than the server's max_output lacks its middle. Standard
error says how much is missing, and so do payload_gap_offset and payload_gap_size.
"fleet task download" writes a large payload to a file.`,
		Example: `  fleet task show 3f2a...
  fleet task show 3f2a... --payload > result.txt
  fleet task show 3f2a... --payload -o json`,
		RunE: p.action(func(ctx context.Context, s *session, args []string) error {
			stream := payload && s.output.forPeople()
			resp, err := s.fleet.ShowTask(ctx, &fleetv1.ShowTaskRequest{TaskId: args[0], IncludePayload: payload && !stream})
			if err != nil {
				return err
			}
			t := resp.GetTask()
			if !stream {
				return s.print(resp, nil, func() { s.showTask(t) })
			}
			if err := (&taskDownload{session: s, id: t.GetId()}).print(ctx); err != nil {
				return err
			}
			if gap := gapOf(t); gap != "" {
				s.note("The payload is not complete: %s.", gap)
			}
			return nil
		}),
	}
	cmd.Flags().BoolVar(&payload, "payload", false, "print the payload")
	return cmd
}

// terminalWords tells people what to expect of a result that was read from a terminal.
const terminalWords = "the agent's terminal: lines may be broken, and pieces of the screen may be in the text"

func (s *session) showTask(t *fleetv1.TaskDetail) {
	if s.quiet {
		s.screen.print(printable(t.GetId()) + "\n")
		return
	}
	var c card
	c.line("Id", t.GetId())
	c.line("Agent", printable(t.GetAgentName()))
	c.line("Status", paint(s.screen.onOut.colored(s.noColor), colorOf(t.GetStatus()), t.GetStatus().String())+inParens(t.GetReason()))
	if t.GetWaiting() {
		c.line("Waiting", paint(s.screen.onOut.colored(s.noColor), yellow, "for an answer, see \"fleet questions --task "+t.GetId()+"\""))
	}
	if t.GetStalled() {
		c.line("Stalled", paint(s.screen.onOut.colored(s.noColor), yellow, "yes")+inParens(t.GetLastStep()))
	}
	if t.GetCollecting() {
		c.line("Collecting", "its run has ended, and its work is copied")
	}
	if why := t.GetConversationLost(); why != "" {
		c.line("Conversation", "began anew: "+printable(why))
	}
	if o := t.GetOptions(); o != nil {
		c.line("Options", optionsLine(o))
	}
	if first := t.GetRetryOf(); first != "" {
		c.line("Retry of", first)
	}
	if t.GetFromTerminal() {
		c.line("Read from", terminalWords)
	}
	c.line("Source", t.GetSource().String())
	c.line("Owner", printable(t.GetOwner()))
	c.line("Created", s.when(t.GetCreatedAt()))
	c.line("Started", s.when(t.GetStartedAt()))
	c.line("Ended", s.when(t.GetCompletedAt()))
	c.line("Took", s.took(t.GetStartedAt(), t.GetCompletedAt()))
	if t.ExitCode != nil {
		c.line("Exit code", fmt.Sprint(t.GetExitCode()))
	}
	if t.GetTurns() > 0 {
		c.line("Turns", fmt.Sprint(t.GetTurns()))
	}
	c.line("Cost", costOf(t.GetCostUsd(), t.GetCostBasis()))
	if n := t.GetContextTokens(); n > 0 {
		text := fmt.Sprintf("%d tokens", n)
		if most := t.GetContextWindow(); most > 0 {
			text += fmt.Sprintf(" of %d (%d%%)", most, 100*int64(n)/int64(most))
		}
		c.line("Context", text)
	}
	if n := t.GetDeniedCalls(); n > 0 {
		c.line("Denied", counted(n, "tool call")+inParens("fleet task steps "+t.GetId()+" --kind denied"))
	}
	if u := t.GetUsage(); u.GetInputTokens()+u.GetOutputTokens() > 0 {
		c.line("Tokens", fmt.Sprintf("%d in, %d out", u.GetInputTokens(), u.GetOutputTokens()))
	}
	if t.GetPayloadSize() > 0 {
		c.line("Payload", fmt.Sprintf("%s (fleet task show %s --payload)", size(t.GetPayloadSize()), t.GetId()))
		c.line("Missing", gapOf(t))
	}
	s.showChecks(&c, t)
	c.line("Changes", printable(changesText(t.GetChanges())))
	c.text("Output", objectText(t.GetOutput()))
	c.text("Summary", t.GetSummary())
	c.text("Description", t.GetDescription())
	c.text("Last output", t.GetPreview())
	s.screen.output(c.b.String())
}

// gapOf describes the missing part of the task's payload. It returns "" if the payload is complete.
func gapOf(t *fleetv1.TaskDetail) string {
	if t.GetPayloadGapSize() <= 0 {
		return ""
	}
	return fmt.Sprintf("%s after the first %s were not kept", size(t.GetPayloadGapSize()), size(t.GetPayloadGapOffset()))
}

// optionsLine returns the options of a task in one line.
func optionsLine(o *fleetv1.TaskOptions) string {
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
