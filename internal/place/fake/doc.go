// Package fake implements a fleet.Place in memory that tests control. The Place value is the world. It survives the
// Service and the Reconciler that use it. So a test can simulate a crash and a restart of the server: it passes the
// Place to a new Service and a new Reconciler. Runs continue while nobody follows them.
//
// Tests use it. People who try out clients use it with `fleet serve --places fake`. It must never start a process or touch a
// file.
//
// # Prompts
//
// An agent of the fake interprets its prompt as a script. The first word of a line is the instruction:
//
//	echo TEXT         prints TEXT
//	step TEXT         outputs a step
//	warn TEXT         outputs a step that warns
//	data JSON         outputs a step with this JSON data
//	repeat N TEXT     prints TEXT N times, numbered from 1: "TEXT 1", "TEXT 2"
//	work DURATION     works for the duration, e.g. 150ms or 2h
//	wait NAME         waits until the test calls Release(NAME)
//	listen            waits for a message and prints it
//	ask TEXT | OPTION | OPTION  asks a question, waits for the answer and prints "answer: " and the answer; options are optional
//	ask-within DURATION TEXT  the same; the question expires after the duration, and then the run prints "no answer"
//	ask-permission TOOL JSON  asks for permission to use the tool on the optional input, and prints the answer
//	ask-policy TOOL ANSWER    asks for permission to use the tool; the policy answers allow or deny, and the run prints the answer
//	payload TEXT      sets the payload; each further payload instruction adds a line
//	output JSON       sets the output, which a task with an output schema returns
//	binary BASE64     sets the payload to these bytes
//	change PATH LINE  adds the line to the file PATH, which the agent has not committed
//	gap OFFSET SIZE   reports that SIZE bytes are missing at the offset of the payload
//	cost USD TURNS    sets the cost and the number of turns, e.g. 0.25 3
//	usage MODEL IN OUT  sets the model, and its input and output tokens, e.g. claude-x 100 50
//	open COUNT        sets the number of open tool calls
//	done SUMMARY      ends the run as completed; \n in the summary is a line break
//	fail REASON       ends the run as failed
//	fail-first COUNT CODE  ends the first COUNT attempts of the task as failed, with the reason code CODE
//	exit CODE         ends the run, as failed unless CODE is 0
//	crash             ends the run as failed, like a crash of the agent's process
//	ignore-interrupt  anywhere before the end: an interrupt without kill does not end the run; it prints "interrupt ignored"
//	ignore-kill       anywhere before the end: a kill does not end the run either; only its workspace or its time limit does
//	lost REASON       outputs a step that says that the conversation was lost, and why
//	session ID        says that the agent's next run continues the conversation with this id
//	terminal          anywhere before the end: marks the output and the outcome as read from a terminal
//
// An agent with an AgentConfig needs no project. Config.Before sees the AgentConfig in the Call.
//
// Any other line, or a line with invalid arguments, ends the run at once. A run that ends without done, fail, exit or
// crash is completed, and its summary is "Handled: " and the first line of the prompt. So a prompt in prose completes
// at once.
//
// # Faults
//
// Fail, FailAfter, Delay, Hold and HoldAfter make any method of the port fail, slow down or hang. Config.Before and
// Config.After see every call. HoldBuilds and HoldRuns stop new builds and runs at their start. StopWorkspace,
// DeleteWorkspace, MakeUnhealthy, CrashRun and similar methods change the world without Fleet.
//
// The fake uses only package time and channels, so it works in a testing/synctest bubble if it was created in that
// bubble. It starts goroutines only for runs and checks. Destroy ends them.
package fake
