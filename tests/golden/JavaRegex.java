import java.util.Scanner;
import java.util.regex.Pattern;
import java.util.regex.PatternSyntaxException;

/** For each line of standard input, an expression: which of the names in the arguments it matches, as 0 and 1, or "-". */
public class JavaRegex {
    public static void main(String[] names) {
        Scanner lines = new Scanner(System.in, "UTF-8");
        while (lines.hasNextLine()) {
            StringBuilder said = new StringBuilder();
            try {
                Pattern pattern = Pattern.compile(lines.nextLine());
                for (String name : names)
                    said.append(pattern.matcher(name).matches() ? '1' : '0');
            } catch (PatternSyntaxException error) {
                said.append('-');
            }
            System.out.println(said);
        }
    }
}
