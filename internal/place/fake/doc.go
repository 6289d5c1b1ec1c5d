// Package fake is a fleet.Place that lives in memory and does what a test tells it to. The Place value is the
// world: it survives what a test does to the Service and the Reconciler on top of it, so handing it to new ones is what
// a crash and a restart of the server look like. Runs go on while nobody follows them.
//
// # Prompts
//
// An agent of the fake reads its prompt as a script. The first word of a line says what to do:
//
//	echo TEXT         writes TEXT
//	step TEXT         takes a step
//	repeat N TEXT     writes TEXT N times, numbered from 1: "TEXT 1", "TEXT 2"
//	work DURATION     works so long, e.g. 150ms, 2h
//	wait NAME         waits until the test calls Release(NAME)
//	listen            waits for a message and writes it
//	ask TEXT | OPTION | OPTION  asks a question, waits for the answer and writes "answer: " and the answer; options can be left out
//	ask-within DURATION TEXT  the same; the question expires after the time, and it writes "no answer" then
//	ask-permission TOOL JSON  asks whether it may use the tool on the input, which can be left out, and writes the answer
//	ask-policy TOOL ANSWER    asks whether it may use the tool; its policy answers allow or deny, and it writes the answer
//	payload TEXT      sets the payload; further lines of payload are added, each on a line of its own
//	binary BASE64     sets the payload to these bytes
//	gap OFFSET SIZE   says that so many bytes are missing at the offset of the payload
//	cost USD TURNS    sets what the run cost and how many turns it took, e.g. 0.25 3
//	usage MODEL IN OUT  sets which model was used and how many tokens it read and wrote, e.g. claude-x 100 50
//	open COUNT        from now on so many calls of tools are under way
//	done SUMMARY      ends, completed; \n in the summary begins a new line
//	fail REASON       ends, failed
//	exit CODE         ends, failed unless CODE is 0
//	crash             ends, failed, as when the agent's process dies
//	ignore-interrupt  anywhere before the end: the run does not end for a polite interrupt; it writes "interrupt ignored" instead
//	ignore-kill       the same: the run does not end for a kill either, only with its workspace or at its time limit
//	lost REASON       takes a step that says that the conversation begins anew, and why
//	terminal          anywhere before the end: what the run puts out, and its outcome, were read from a terminal
//
// An agent with a Recipe needs no project of the world; Config.Before sees its Recipe in the Call.
//
// Any other line, and one whose arguments do not fit, ends the run at once. A run that ends without done, fail, exit or
// crash is completed with the summary "Handled: " and the first line of the prompt; so a prompt in plain words is done
// at once.
//
// # Trouble
//
// Fail, FailAfter, Delay, Hold and HoldAfter make any method of the port slow, stuck or broken; Config.Before and
// Config.After see every call. HoldBuilds and HoldRuns stop what they make where it begins.
// StopWorkspace, DeleteWorkspace, MakeUnhealthy, CrashRun and the like change the world
// behind Fleet's back.
//
// It uses package time and channels alone, so it works in a testing/synctest bubble when it was made inside of it. Its
// only goroutines are those of runs; Destroy ends them.
package fake
