package npm

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	fleetv1 "fleet/gen/fleet/v1"
)

// runScript types a prompt, which begins with the words and contains the answers of the model. It waits until the model has received a request for
// each answer.
func (b *boss) runScript(t *testing.T, words string, answers ...string) {
	t.Helper()
	b.pressKeys(t, "-l", words) // Claude Code does not run a command that is pasted
	script := strings.Join(answers, "\n")
	b.paste(t, "\n"+script+"\n-")       // the slash command's own text follows its arguments
	require.Eventually(t, func() bool { // a paste arrives in parts, and Enter between the parts does not end the prompt
		if len(b.turns(script)) == 0 {
			b.pressKeys(t, "Enter")
		}
		return len(b.turns(script)) >= len(answers)
	}, defaultTimeout, time.Second, "the model did not receive a request for each answer: %s", lazyString(b.screen))
}

// toolCalls returns an answer that calls the tool with each of the inputs.
func toolCalls(t *testing.T, tool string, inputs ...map[string]any) string {
	t.Helper()
	var all []map[string]any
	for _, input := range inputs {
		all = append(all, map[string]any{"name": "mcp__plugin_fleet_fleet__" + tool, "input": input})
	}
	data, err := json.Marshal(all)
	require.NoError(t, err)
	return "model: tools " + string(data)
}

// bash returns an answer that runs the command.
func bash(command string) string {
	return "model: tool Bash " + asJSON(map[string]string{"command": command})
}

// TestClaudeOrchestrates does a whole job, as docs/use/orchestrate.md describes it: Claude Code with the plugin plans, runs five Claude Code agents
// in the background, shows the question of one of them, reviews the work, requests one change, and lands all the work. It does not poll for results.
func TestClaudeOrchestrates(t *testing.T) {
	installClaude(t) // may skip the test
	names := []string{"colours", "switch", "cart", "voucher", "readme"}
	files := map[string]string{}
	for _, name := range names {
		files[name+".txt"] = "old " + name + "\n"
	}
	repo, git := newRepository(t, files)
	b := newBossOn(t, repo, "Bash")
	b.env = append(b.env, "FLEET_PROGRAM="+program(t), "FLEET_SERVER="+b.grpc)
	const plan = "/fleet:plan dark mode for the shop, and the two bugs of the cart"
	b.tmuxWindow = openTmux(t, b.env, b.home.path("boss"), b.path, "--plugin-dir", pluginOfDocs(t), "--allowedTools", "mcp__plugin_fleet_fleet")
	b.waitForText(t, "❯")

	// Plan.
	b.runScript(t, plan, `model: tool Skill {"skill":"fleet:orchestrate"}`, toolCalls(t, "show_fleet", map[string]any{}), toolCalls(t, "list_pools", map[string]any{}),
		`model: say | task | where | limit |\n|---|---|---|\n| colours, switch, cart, voucher, readme | pool web | $3 each |\n\nShall I begin?`)

	// Start five tasks, which run in the background.
	var tasks []map[string]any
	for _, name := range names {
		script := []string{"Work on the " + name + " of the shop, and commit."}
		if name == "colours" {
			script = append(script, `model: tool mcp__fleet-ask__ask_user {"question":"Which is the default?","options":["light","dark"]}`)
		}
		script = append(script, bash("echo new "+name+" >"+name+".txt"), bash("git commit -qam '"+name+"'"), "model: say Done with "+name)
		tasks = append(tasks, map[string]any{
			"pool": "web", "task_description": strings.Join(script, "\n"), "checks": []string{"grep new " + name + ".txt"}, "max_cost_usd": 3, "request_id": "shop-" + name,
		})
	}
	b.runScript(t, "Go.", toolCalls(t, "run_task", tasks...), "model: say All five run.")

	// Answer the question.
	b.choose(t, "Answer", "light", "dark")
	id := map[string]string{}
	for _, name := range names {
		b.waitForResult(t, "Go.", "Done with "+name)
	}
	require.Less(t, len(b.turns("Go.")), 2*len(names), "the model must need fewer than two turns per task")
	for _, task := range b.tasks(t) {
		id[strings.TrimPrefix(task.GetSummary(), "Done with ")] = task.GetId()
	}

	// Review, and request a change.
	b.runScript(t, "/fleet:review of the shop", toolCalls(t, "list_reviews", map[string]any{}), toolCalls(t, "show_task_changes", patchInputs(id, names)...),
		"model: say All do what was asked, but cart.txt:1 says only that it is new. I would request a change of that, and approve the others. Shall I?")
	b.runScript(t, "Request it, and read what comes.", toolCalls(t, "review_task", map[string]any{
		"task_id": id["cart"], "verdict": "request_changes", "text": bash("echo newer cart >cart.txt") + "\n" + bash("git commit -qam newer"),
		"comments": []any{map[string]any{"path": "cart.txt", "line": 1, "text": "model: say Made the cart newer"}},
	}), "model: say I am told when the change is made.")
	b.waitForResult(t, "Request it, and read what comes.", "Made the cart newer")
	reviewed, err := b.api.ShowTask(t.Context(), &fleetv1.ShowTaskRequest{TaskId: id["cart"]})
	require.NoError(t, err)
	require.Equal(t, fleetv1.Landing_replaced, reviewed.GetTask().GetLanding().GetState())
	id["cart"] = reviewed.GetTask().GetLanding().GetNextTaskId()
	b.runScript(t, "What is it now?", toolCalls(t, "show_task_changes", map[string]any{"task_id": id["cart"], "patch": true}), "model: say The cart is newer now. Shall all of it land?")
	requests := b.turns("What is it now?")
	require.Contains(t, requests[len(requests)-1].conversationText(), "+newer cart", "the model must have read the changed work")

	// Land all.
	var approved []map[string]any
	var landed []string
	for _, name := range names {
		approved = append(approved, map[string]any{"task_id": id[name], "verdict": "approve"})
		landed = append(landed, id[name])
	}
	b.runScript(t, "Approve and land all.", toolCalls(t, "review_task", approved...), toolCalls(t, "show_overlaps", map[string]any{"project": "code"}),
		toolCalls(t, "land_tasks", map[string]any{"task_ids": landed, "dry_run": true}), toolCalls(t, "land_tasks", map[string]any{"task_ids": landed}), "model: say All five are landing.")
	b.waitForResult(t, "Approve and land all.", "The work of 5 of 5 tasks landed.")
	for _, name := range names {
		shown, err := b.api.ShowTask(t.Context(), &fleetv1.ShowTaskRequest{TaskId: id[name]})
		require.NoError(t, err)
		require.Equal(t, fleetv1.Landing_landed, shown.GetTask().GetLanding().GetState())
		want := "new " + name
		if name == "cart" {
			want = "newer cart"
		}
		require.Equal(t, want, git("show", "main:"+name+".txt"))
	}
	require.Equal(t, "6", git("rev-list", "--count", "main"))
	b.runScript(t, "/fleet:status of the shop", toolCalls(t, "show_fleet", map[string]any{}), toolCalls(t, "list_reviews", map[string]any{}), "model: say All five have landed, and nothing waits for you.")
	b.pressKeys(t, "/exit", "Enter")
	b.waitForEnd(t)
	b.requireJobDone(t, names)
}

// requireJobDone checks the conversation of TestClaudeOrchestrates after its end: one question was answered by a person, each result arrived once, and no
// call failed or polled for a result.
func (b *boss) requireJobDone(t *testing.T, names []string) {
	t.Helper()
	r, err := b.api.ListQuestions(t.Context(), &fleetv1.ListQuestionsRequest{IncludeAnswered: true})
	require.NoError(t, err)
	byPeople := slices.DeleteFunc(r.GetQuestions(), func(q *fleetv1.Question) bool { return q.GetAnsweredBy() == "policy" })
	require.Len(t, byPeople, 1)
	require.Equal(t, []string{"dark", "local"}, []string{byPeople[0].GetAnswer(), byPeople[0].GetAnsweredBy()})
	answered := b.requestsWith("commit.\nmodel: tool mcp__fleet-ask__ask_user") // this matches only the agent's prompt, because the boss's prompt contains the text as JSON
	require.Contains(t, answered[len(answered)-1].results()[0].Content.text(), "dark")
	require.Len(t, b.tasks(t), 6, "there must be five tasks, and the task that changes the work of one")
	turns := b.turns("nothing waits for you")
	last := turns[len(turns)-1]
	for _, name := range names {
		require.Equal(t, 1, strings.Count(last.conversationText(), wakePrefix+"Done with "+name+"\n"), "%s must arrive once", name)
	}
	for _, command := range []string{"Plan this work for the agents of Fleet", "Review the work of tasks", "Look at the fleet"} {
		require.Contains(t, last.conversationText(), command)
	}
	for _, poll := range []string{"wait_tasks", "show_task"} {
		require.NotContains(t, last.calledTools(), "mcp__plugin_fleet_fleet__"+poll)
	}
	for _, result := range last.results() {
		require.False(t, result.IsError, result.Content.text())
	}
	t.Logf("%d turns of the model\n%s", strings.Count(last.conversationText(), "\nassistant: ")+1, last.transcript())
}

// patchInputs returns the inputs of show_task_changes with which it returns the patches of the tasks.
func patchInputs(id map[string]string, names []string) (all []map[string]any) {
	for _, name := range names {
		all = append(all, map[string]any{"task_id": id[name], "patch": true})
	}
	return all
}

var (
	// notificationPattern matches a message with which Claude Code wakes its model.
	notificationPattern = regexp.MustCompile(`(?s)<summary>(.*?)</summary>\n<result>(.*?)</result>`)
	// pastedPattern matches the marks around a text that was pasted.
	pastedPattern = regexp.MustCompile(`-?\s*</?pasted_content[^>]*>`)
)

// transcript returns the conversation as text, with a line of at most about 300 characters for each text, call and result.
func (r request) transcript() string {
	var all strings.Builder
	line := func(who, text string) {
		text = strings.Join(strings.Fields(pastedPattern.ReplaceAllString(stepLinePattern.ReplaceAllString(text, ""), "")), " ")
		if runes := []rune(text); len(runes) > 300 {
			text = string(runes[:300]) + " …"
		}
		if text != "" {
			fmt.Fprintf(&all, "%s: %s\n", who, text)
		}
	}
	for _, m := range r.Messages {
		for _, x := range m.Content {
			switch woke := notificationPattern.FindStringSubmatch(x.Text); {
			case x.Type == "tool_use":
				line("call", x.Name+" "+string(x.Input))
			case x.Type == "tool_result":
				line("result", x.Content.text())
			case woke != nil:
				line("wake", woke[1]+" "+woke[2])
			case m.Role == "system" || strings.HasPrefix(x.Text, "<system-reminder>") || strings.HasPrefix(x.Text, "<command-message>"): // not from a person or the model
			case strings.HasPrefix(x.Text, "Now "): // what the stub writes before its calls
			default:
				line(m.Role, x.Text)
			}
		}
	}
	line("assistant", r.nextStep().text)
	return all.String()
}
