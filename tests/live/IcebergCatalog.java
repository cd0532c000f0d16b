import java.io.File;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.rest.RESTCatalogAdapter;
import org.apache.iceberg.rest.RESTCatalogServlet;
import org.eclipse.jetty.server.Server;
import org.eclipse.jetty.servlet.ServletContextHandler;
import org.eclipse.jetty.servlet.ServletHolder;

/**
 * Serves Iceberg's REST protocol on a port of loopback, by Iceberg's own adapter over its catalog in a SQLite file, so
 * that tables outlive the process. Arguments: the port, the folder of the database and of the tables.
 */
public class IcebergCatalog {
    public static void main(String[] arguments) throws Exception {
        File folder = new File(arguments[1]).getAbsoluteFile();
        Map<String, String> properties = Map.of(
            "catalog-impl", "org.apache.iceberg.jdbc.JdbcCatalog",
            "uri", "jdbc:sqlite:" + new File(folder, "catalog.db"),
            "jdbc.schema-version", "V1",
            "warehouse", "file://" + new File(folder, "warehouse"));
        Catalog catalog = CatalogUtil.buildIcebergCatalog("tests", properties, new Configuration());
        ServletContextHandler context = new ServletContextHandler(ServletContextHandler.NO_SESSIONS);
        context.addServlet(new ServletHolder(new RESTCatalogServlet(new RESTCatalogAdapter(catalog))), "/*");
        Server server = new Server(
            new InetSocketAddress(InetAddress.getLoopbackAddress(), Integer.parseInt(arguments[0])));
        server.setHandler(context);
        server.start();
        server.join();
    }
}
