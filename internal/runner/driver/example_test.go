package driver_test

import (
	"fmt"
	"log"

	"fleet/internal/runner/driver"
)

// A driver describes how to start a program for a task. Package runner starts it.
func ExampleDriver() {
	qwen, err := driver.New(driver.Options{
		Kind: "command", Command: []string{"qwen", "--output-format", "stream-json", "{{.Prompt}}"},
		Output: "jsonl", Fields: driver.Fields{Text: "message.text", Step: "tool.name", Summary: "result"},
	})
	check(err)
	command, err := qwen.Command(driver.Job{Agent: "papi", Prompt: "Fix the login", RunDir: "/runs/1"})
	check(err)
	fmt.Printf("%q\n", command.Argv)
	fmt.Println("output:", command.Format.Kind)

	// Invalid options are reported when the server starts, not when a task starts.
	_, err = driver.New(driver.Options{Kind: "command", Command: []string{"qwen", "{{.Task}}"}})
	fmt.Println("an unknown name is refused:", err != nil)
	// Output:
	// ["qwen" "--output-format" "stream-json" "Fix the login"]
	// output: jsonl
	// an unknown name is refused: true
}

// A parser parses the program's output in pieces of any size. The format is stored with the run, so that a later
// version of Fleet can parse the output too.
func ExampleParser() {
	parser, err := driver.NewParser(driver.Format{Kind: "jsonl", Fields: driver.Fields{Text: "message.text", Step: "tool.name", Summary: "result"}})
	check(err)
	output := []byte(`{"message": {"text": "I look at the login."}}
{"tool": {"name": "Edit"}}
{"result": "The login works"}
`)
	for len(output) > 0 {
		n, pieces := parser.Parse(output, true) // false while the program runs: then it may wait for the rest of a line
		for _, piece := range pieces {
			fmt.Printf("step %-5t %q\n", piece.Step, piece.Text)
		}
		output = output[n:]
	}
	result := parser.Result(driver.Exit{Code: 0})
	fmt.Println(result.Outcome.Status, "-", result.Outcome.Summary)
	// Output:
	// step false "I look at the login.\n"
	// step true  "Edit"
	// completed - The login works
}

func check(err error) {
	if err != nil {
		log.Panic(err)
	}
}
