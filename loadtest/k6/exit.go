package k6

import (
	"fmt"
	"regexp"
	"strings"
)

// The exit codes that k6 was seen to end with. 0 says only that the process ran:
// a target that is down and a summary that could not be written end in it too.
var exitCodes = map[int]string{
	99:  "a threshold of the script was crossed; lab judges the steps itself: remove the script's own thresholds",
	100: "setup() did not end in time; shorten it or raise setupTimeout",
	104: "k6 refuses the script's options",
	105: "k6 was told to stop",
	107: "the script has an error",
	108: "the script stopped the test (exec.test.abort); lab decides when to stop: remove it",
	110: "the script marked the test as failed (exec.test.fail); let it return the response instead",
	255: "k6 can't read a file or knows a flag not; check the script's path and imports, and that k6 is the pinned version",
}

// exitError is what an exit code means, with what k6 said last; nil for 0.
func exitError(code int, stderr string) error {
	if code == 0 {
		return nil
	}
	meaning, known := exitCodes[code]
	if !known {
		meaning = "unknown to lab"
	}
	text := fmt.Sprintf("k6 ended with status %d: %s", code, meaning)
	if said := firstError(stderr); said != "" {
		text += ": " + said
	}
	return fmt.Errorf("%s", text)
}

var message = regexp.MustCompile(`level=error msg=("(?:[^"\\]|\\.)*"|\S+)`)

// firstError is the text of the first error that k6 logged, on one line, without
// its log format; "" for none.
func firstError(stderr string) string {
	found := message.FindStringSubmatch(stderr)
	if found == nil {
		return ""
	}
	text := strings.NewReplacer(`\n`, " ", `\t`, " ", `\"`, `"`).Replace(strings.Trim(found[1], `"`))
	text = strings.Join(strings.Fields(text), " ")
	return text[:min(len(text), 300)]
}
