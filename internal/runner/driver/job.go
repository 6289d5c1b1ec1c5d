package driver

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"fleet/internal/fleet"
	"fleet/internal/runner/acp"
)

// Job is a task for an agent, with everything that its driver must know about the agent.
type Job struct {
	TaskID        string
	Agent         string
	Project       string
	Role          Role
	Spec          string
	Prompt        string
	RunDir        string    // absolute; directory of Command.Files
	Feedback      string    // results of failed checks of the last run; empty if no check failed
	Session       string    // the conversation that the run continues; empty if the run starts a new conversation
	SessionUsedAt time.Time // when Session was last used
	LostReason    string    // why the agent's previous conversation cannot continue; empty if it can, or if the agent had none

	Brief       string            // what Fleet tells the agent, see fleet.Run
	Options     fleet.TaskOptions // see WithOptions
	Attachments []Attachment      // files of the task, in the run's directory

	ClientCommand []string              // command that talks to the program; a protocol and a job file are appended
	AskCommand    []string              // command that runs question.Main; a verb is appended; if empty, the run cannot ask questions
	Confined      bool                  // Fleet confines the program
	OneTask       bool                  // the agent gets only this task, which is not queued, so the conversation need not be stored
	Report        *fleet.ServerEndpoint // how the agent reports to Fleet; nil if the agent cannot report
}

// Attachment is a file of a task.
type Attachment struct {
	Path      string
	MediaType string
	Size      int // in bytes
}

// BaseFiles returns the files that every run has.
func BaseFiles(j Job) []File {
	return []File{
		{Name: PromptFile, Data: j.Prompt},
		{Name: SpecFile, Data: j.Spec},
		{Name: RoleFile, Data: j.Role.Prompt},
		{Name: BriefFile, Data: fullInstructions(j)},
	}
}

func (j Job) path(name string) string { return filepath.Join(j.RunDir, name) }

// standingInstructions returns the instructions besides the prompt: the role's prompt, the specification, the brief, and what the
// task's options append.
func standingInstructions(j Job) string {
	var parts []string
	if p := strings.TrimSpace(j.Role.Prompt); p != "" {
		parts = append(parts, p)
	}
	if s := strings.TrimSpace(j.Spec); s != "" && s != strings.TrimSpace(j.Role.Prompt) { // an agent's configuration may have the same text for both
		parts = append(parts, fmt.Sprintf("You are the agent %q. What you are there for:\n\n%s", j.Agent, s))
	}
	for _, more := range []string{j.Brief, j.Options.AppendSystemPrompt} {
		if s := strings.TrimSpace(more); s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, "\n\n")
}

// firstPrompt returns the first prompt of a conversation. If the agent's previous conversation was lost, the result
// begins with a note about that.
func firstPrompt(j Job, prompt string) string {
	if j.LostReason == "" {
		return prompt
	}
	return acp.LostConversationNote + prompt
}

// fullInstructions returns the standing instructions and the prompt in one text, for programs that accept only one.
func fullInstructions(j Job) string {
	s := standingInstructions(j)
	if s == "" {
		return j.Prompt
	}
	return s + "\n\nYour task now:\n\n" + j.Prompt
}

// changedInstructions returns the full instructions for a program that has received other standing instructions in its conversation.
func changedInstructions(j Job) string {
	return "What you were told about yourself has changed. From now on this holds instead:\n\n" + fullInstructions(j)
}

// WithOptions returns the job with the options of its task.
func (j Job) WithOptions(o fleet.TaskOptions) Job {
	j.Role.Model, j.Role.Effort, j.Options = cmp.Or(o.Model, j.Role.Model), cmp.Or(o.Effort, j.Role.Effort), o
	if o.MaxTurns != nil {
		j.Role.MaxTurns = *o.MaxTurns
	}
	if o.MaxCostUSD != nil {
		j.Role.MaxCostUSD = *o.MaxCostUSD
	}
	return j
}
