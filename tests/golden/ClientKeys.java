import java.util.HashMap;
import java.util.Map;
import java.util.Scanner;

/** Makes the configuration of a client of Kafka for each line of standard input: class, key and value, tabs between. */
public class ClientKeys {
    public static void main(String[] arguments) throws Exception {
        Scanner lines = new Scanner(System.in, "UTF-8");
        while (lines.hasNextLine()) {
            String[] words = lines.nextLine().split("\t", -1);
            Map<String, Object> properties = new HashMap<>();
            properties.put("bootstrap.servers", "a:1");
            properties.put("group.id", "g");
            for (String of : new String[] {"key", "value"}) {
                properties.put(of + ".serializer", "org.apache.kafka.common.serialization.StringSerializer");
                properties.put(of + ".deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
            }
            properties.put(words[1], words[2]);
            String said = "";
            try {
                Class.forName("org.apache.kafka.clients." + words[0]).getConstructor(Map.class).newInstance(properties);
            } catch (java.lang.reflect.InvocationTargetException error) {
                said = error.getCause().getMessage();
            }
            System.out.println(said);
        }
    }
}
